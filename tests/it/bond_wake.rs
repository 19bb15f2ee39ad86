//! A sealed session after the machine slept: its connections are dead and nobody says so.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use interlink::agent::bond::books::BondBooks;
use interlink::agent::bond::config::BondConfig;
use interlink::agent::bond::desk::Desk;
use interlink::agent::bond::relay::BondUrl;
use interlink::agent::bond::scribe::Scribe;
use interlink::agent::connect::Authorities;
use interlink::agent::ledger::Ledger;
use interlink::domain::decide::agent::Agent;
use interlink::domain::machine::bond::Phase;
use interlink::event::agent::BondMode;
use interlink::store::{Location, OpenOptions, Store};
use interlink::types::id::SessionId;

use crate::bond_support::BondRelay;
use crate::mcp_support::DEADLINE;
use crate::support::clock;

/// Less than a client waits for a relay that says nothing, and much less than with the pause after it.
const AT_ONCE: Duration = Duration::from_secs(5);

fn desk(dir: &Path, relay: &BondRelay) -> Arc<Desk> {
    let clock = clock();
    let options = OpenOptions::shared(Location::File(dir.join("agent.redb")));
    let store = Store::<Agent>::open(options, clock.clone(), None).unwrap();
    let ledger = Arc::new(Ledger::over(store));
    let session = SessionId::parse("s").unwrap();
    let books = BondBooks::new(ledger, clock, session, None);
    let config = BondConfig {
        relay: BondUrl::parse(&relay.url()),
        authorities: Authorities::default(),
        max_file_kb: 256,
        max_spoken_file_mib: 64,
        mode: BondMode::Own,
        roots: vec![],
        home: dir.to_owned(),
        incoming: dir.join("incoming"),
        state: dir.to_owned(),
        reachable: false,
    };
    Arc::new(Desk::new(config, Scribe::start(books)))
}

async fn until(what: &str, mut is: impl FnMut() -> bool) -> Instant {
    let end = Instant::now() + DEADLINE;
    while !is() {
        assert!(Instant::now() < end, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Instant::now()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_woke_asks_the_relay_of_its_session_anew_and_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let relay = BondRelay::start();
    let here = SessionId::parse("s").unwrap();
    for spoken in [false, true] {
        let desk = desk(&dir.path().join(spoken.to_string()), &relay);
        // As a connection whose other end is gone.
        relay.meddle(|asked| (asked.path == "/poll").then_some(None));
        desk.connect(Some(spoken), &here).await.unwrap();
        let before = relay.asked("/poll").len();
        until("a poll", || relay.asked("/poll").len() > before).await;
        let asked = relay.asked("/poll").len();
        let woke = Instant::now();
        desk.woke();
        let again = until("another", || relay.asked("/poll").len() > asked).await;
        let took = again - woke;
        assert!(took < AT_ONCE, "{spoken}: {took:?}");
        // In a time of failures, too, nobody waits for the end of a pause.
        relay.meddle(|asked| {
            (asked.path == "/poll").then(|| Some((500, String::new(), "{}".to_owned())))
        });
        desk.woke();
        let before = relay.asked("/poll").len();
        until("failures", || relay.asked("/poll").len() > before + 2).await;
        let asked = relay.asked("/poll").len();
        let woke = Instant::now();
        desk.woke();
        let again = until("another", || relay.asked("/poll").len() > asked).await;
        assert!(again - woke < Duration::from_secs(2), "{:?}", again - woke);
        desk.end(false);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_on_its_way_when_the_machine_slept_is_sent_again() {
    let dir = tempfile::tempdir().unwrap();
    let relay = BondRelay::start();
    let here = SessionId::parse("s").unwrap();
    let host = desk(&dir.path().join("host"), &relay);
    let guest = desk(&dir.path().join("guest"), &relay);
    let opened = host.connect(None, &here).await.unwrap();
    guest.join(&opened.code.unwrap(), &here).await.unwrap();
    for desk in [&host, &guest] {
        let met = || {
            desk.view()
                .is_some_and(|view| view.phase == Phase::Confirmed)
        };
        until("they met", met).await;
    }
    until("the acknowledgements are through", || {
        let sent = relay.asked("/send").len();
        sent >= 3
    })
    .await;
    let _ = host.take_news();
    let _ = guest.take_news();
    relay.meddle(|asked| (asked.path == "/send").then_some(None));
    let before = relay.asked("/send").len();
    host.say("after a nap".to_owned()).await.unwrap();
    until("it is on its way", || relay.asked("/send").len() > before).await;
    relay.meddle(|_| None);
    let woke = Instant::now();
    host.woke();
    let mut heard = false;
    let end = until("it arrives", || {
        heard |= guest
            .take_news()
            .iter()
            .any(|event| event.text.contains("after a nap"));
        heard
    })
    .await;
    assert!(
        end - woke < AT_ONCE + Duration::from_secs(2),
        "{:?}",
        end - woke
    );
    host.end(false);
    guest.end(false);
}
