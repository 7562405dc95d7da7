//! The scripts, one per operation; each is sent by its hash, and says at its top what it takes and answers.

use crate::times::Times;
use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisResult};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Script {
    Attach,
    Try,
    Wait,
    Leave,
    Contended,
    Verify,
    Fence,
    Inspect,
}

/// What the scripts answer where nothing was done.
pub(crate) const ENDED: i64 = -1;
pub(crate) const REPLACED: i64 = -2;

const LINE: &str = include_str!("scripts/line.lua");

impl Script {
    const ALL: [Self; 8] =
        [Self::Attach, Self::Try, Self::Wait, Self::Leave, Self::Contended, Self::Verify, Self::Fence, Self::Inspect];

    fn source(self) -> String {
        let source = match self {
            Self::Attach => include_str!("scripts/attach.lua"),
            Self::Try => include_str!("scripts/try.lua"),
            Self::Wait => include_str!("scripts/wait.lua"),
            Self::Leave => include_str!("scripts/leave.lua"),
            Self::Contended => include_str!("scripts/contended.lua"),
            Self::Verify => include_str!("scripts/verify.lua"),
            Self::Fence => include_str!("scripts/fence.lua"),
            Self::Inspect => include_str!("scripts/inspect.lua"),
        };
        source.replacen("-- @line\n", LINE, 1).replace("@reap", &Times::REAP.as_millis().to_string())
    }
}

/// The hashes under which the server knows the scripts.
#[derive(Debug)]
pub(crate) struct Scripts(Vec<String>);

impl Scripts {
    pub(crate) async fn load(connection: &mut MultiplexedConnection) -> RedisResult<Self> {
        let mut load = Pipeline::new();
        for script in Script::ALL {
            load.cmd("SCRIPT").arg("LOAD").arg(script.source());
        }
        load.query_async(connection).await.map(Self)
    }

    pub(crate) fn hash(&self, script: Script) -> &str {
        self.0.get(script as usize).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_says_what_it_takes_and_is_whole() {
        for (at, script) in Script::ALL.into_iter().enumerate() {
            assert_eq!(script as usize, at);
            let source = script.source();
            assert!(source.starts_with("-- ") && source.contains("-- KEYS: ") && source.contains("-- Reply: "));
            assert!(!source.contains("-- @line\n") && !source.contains("@reap"), "{script:?}");
        }
    }
}
