use crate::story::{EXCLUSIVE, SHARED, Story, ms};
use coordinator_testkit::history::{Allowed, Event, Step, What, html};

const HOSTILE: &str = "</script><script>alert('x' & \"y\")</script>";
const ESCAPED: &str = "&lt;/script&gt;&lt;script&gt;alert(&#39;x&#39; &amp; &quot;y&quot;)&lt;/script&gt;";

#[test]
fn whatever_a_history_says_is_text_in_the_page() {
    let (client, scope) = (HOSTILE.to_owned(), HOSTILE.to_owned());
    let mut story = Story::default();
    for (at, step) in [
        (1, Step::Invoke(EXCLUSIVE)),
        (2, Step::Grant(EXCLUSIVE)),
        (3, Step::Lost(HOSTILE.into())),
        (4, Step::Failed(HOSTILE.into())),
    ] {
        let what = What::Client { client: client.clone(), scope: scope.clone(), step };
        story.0.record(Event { at: ms(at), process: HOSTILE.into(), what });
    }
    story.0.record(Event { at: ms(5), process: HOSTILE.into(), what: What::Note(HOSTILE.into()) });
    story.0.record(Event { at: ms(6), process: HOSTILE.into(), what: What::Killed });
    let story = story.did(7, HOSTILE, Step::Release).did(8, "b", Step::Release);
    let page = html(&story.0, HOSTILE, &story.violations());
    assert!(!page.contains(HOSTILE) && !page.contains("alert('x'"));
    assert_eq!(page.matches("<script>").count(), 1);
    for place in ["<title>", "<h1>", "<div>", "loss told: ", "failed: "] {
        assert!(page.contains(&format!("{place}{ESCAPED}")), "{place}");
    }
}

#[test]
fn a_page_needs_nothing_else() {
    let page = html(&Story::default().holds(0..10, "a", SHARED).0, "t", &[]);
    for outside in ["src=", "href=", "url(", "@import", "fetch("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("://").count(), 1, "the name of SVG's elements alone");
}

#[test]
fn leases_tokens_kills_and_losses_are_drawn_where_they_were() {
    let story = Story::default().takes(0, "a", EXCLUSIVE).token(20..25, "a", 42).lost(50, "a");
    let story = story.asks(10, "b", SHARED).did(40, "b", Step::Grant(SHARED)).killed(100, "b");
    let violations = story.0.check(&Allowed::default());
    assert_eq!(violations.len(), 1);
    let page = html(&story.0, "t", &violations);
    for drawn in [
        "<rect class=\"exclusive wrong\" x=\"0.000000%\" y=\"26\" width=\"50.000000%\"",
        "<rect class=\"wait\" x=\"10.000000%\" y=\"75\" width=\"30.000000%\"",
        "<rect class=\"shared wrong\" x=\"40.000000%\" y=\"70\" width=\"60.000000%\"",
        "<circle class=\"token\" cx=\"25.000000%\"",
        "<title>token 42 at 25ms</title>",
        "<line class=\"lost\" x1=\"50.000000%\"",
        "<line class=\"killed\" x1=\"100.000000%\"",
    ] {
        assert!(page.contains(drawn), "{drawn} is not in\n{page}");
    }
}

#[test]
fn a_history_without_events_or_with_one_is_a_page() {
    assert!(html(&Story::default().0, "t", &[]).contains("0 events"));
    let story = Story::default().asks(5, "a", SHARED);
    let page = html(&story.0, "t", &story.violations());
    assert!(page.contains("<rect class=\"open\"") && page.contains("never answered"));
}
