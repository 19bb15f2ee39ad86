//! What the end of a channel server leaves behind.

use interlink::domain::decide::agent::Agent as Log;
use interlink::store::{Mode, Reader, verify};

use crate::kill::stores::agent_store;
use crate::mcp_support::{FakeRelay, Home};

#[test]
fn after_an_orderly_end_the_store_is_read_as_it_is_and_not_from_a_repaired_copy() {
    // A relay that hangs: its farewell takes all the time that there is.
    let relay = FakeRelay::start(|_| None);
    for ask in ["TERM", "eof"] {
        let home = Home::new(1);
        let mut agent = home.start(&relay.url(), "s");
        let id = agent.send("self", "other", "kept");
        if ask == "eof" {
            agent.close_stdin();
        } else {
            agent.signal(ask);
        }
        assert_eq!(agent.wait().code(), Some(0), "{ask}");
        let reader = Reader::open(&agent_store(&home), Mode::Shared).unwrap();
        assert!(!reader.repaired, "{ask}");
        let snapshot = reader.snapshot().unwrap();
        verify::verify::<Log>(&snapshot, |_| {}).unwrap();
        let sent = interlink::domain::query::agent::outbox_open(&snapshot, None, 9).unwrap();
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0].row.msg_id.as_str(), id);
    }
}

#[test]
fn a_killed_server_leaves_a_store_that_is_read_from_a_repaired_copy() {
    // The other test can fail: without an orderly end there is something to repair.
    let home = Home::new(1);
    let mut agent = home.start("http://127.0.0.1:9", "s");
    agent.send("self", "other", "kept");
    agent.kill();
    let reader = Reader::open(&agent_store(&home), Mode::Shared).unwrap();
    assert!(reader.repaired);
}
