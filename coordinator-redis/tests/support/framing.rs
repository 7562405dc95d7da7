//! How the server's protocol divides into messages.

use coordinator_testkit::Framing;

/// RESP, in both directions: a line that says what it is, and then the bytes or the parts that it counts.
pub(crate) const RESP: Framing = Framing::Lengths(|bytes, _, _| length(bytes));

fn length(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let header = end + 2;
    let count = std::str::from_utf8(&bytes[1..end]).ok().and_then(|text| text.parse::<usize>().ok());
    let parts = match bytes[0] {
        b'$' | b'=' | b'!' => return Some(header + count.map_or(0, |count| count + 2)),
        b'*' | b'~' | b'>' => count.unwrap_or(0),
        b'%' => 2 * count.unwrap_or(0),
        _ => 0,
    };
    (0..parts).try_fold(header, |at, _| Some(at + length(bytes.get(at..)?)?))
}

#[test]
fn messages_are_told_apart() {
    let messages: [&[u8]; 7] = [
        b"+OK\r\n",
        b":1\r\n",
        b"$5\r\nhello\r\n",
        b"$-1\r\n",
        b"*2\r\n$4\r\nECHO\r\n$2\r\n\r\n\r\n",
        b"%1\r\n+proto\r\n:3\r\n",
        b">3\r\n+message\r\n$1\r\nc\r\n$1\r\np\r\n",
    ];
    for message in messages {
        assert_eq!(length(message), Some(message.len()));
        assert_eq!(length(&[message, b"+more\r\n"].concat()), Some(message.len()));
        assert_eq!(length(&message[..message.len() - 1]).filter(|length| *length < message.len()), None);
    }
}
