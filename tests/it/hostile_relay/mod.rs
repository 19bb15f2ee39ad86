//! One relay wants to do harm, another is fine: mail goes on through the good one, the bad one is
//! asked at a bounded pace, and nothing that it says grows this process.

pub(crate) mod server;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use interlink::crypto::sign::SigningIdentity;
use interlink::types::secret::Secret;
use interlink::types::time::UnixMillis;
use interlink::wire::announce::{Announcement, SessionInfo};
use serde_json::{Value, json};

use crate::http::Bus;
use crate::mcp_support::{Agent, Home, eventually, friends};
use server::{Act, Hostile, Request, count};

/// Longest time of a message through the good relay, from the call to the reader. Waiting for a bad
/// relay would cost ten seconds and more; a loaded machine may take its time.
const DELIVERY: Duration = Duration::from_secs(5);

/// Most memory that a hostile answer may cost, in KiB: one answer at its bound, and copies of it.
const GROWTH_KIB: u64 = 96 * 1024;

/// Two friends with a hostile and a good relay.
struct Scene {
    alice: Agent,
    bob: Agent,
    hostile: Hostile,
    _good: Bus,
    _homes: (Home, Home),
    before_kib: u64,
}

/// Answers what is not of interest as a relay without mail does, which waits.
fn dull(request: &Request) -> Act {
    match request.route.as_str() {
        "GET /recv" => Act::Silence,
        "GET /roster" => Act::Reply(200, r#"{"roster":[]}"#.into()),
        _ => Act::Reply(202, String::new()),
    }
}

impl Scene {
    fn new(behave: impl Fn(&Request) -> Act + Send + Sync + 'static) -> Scene {
        let good = Bus::start();
        let hostile = Hostile::start(behave);
        let (a, b) = friends();
        let relays = format!("{},http://{}", hostile.url(), good.addr);
        let (alice, bob) = (a.start(&relays, "sa"), b.start(&relays, "sb"));
        let before_kib = peak_kib(bob.pid());
        Scene {
            alice,
            bob,
            hostile,
            _good: good,
            _homes: (a, b),
            before_kib,
        }
    }

    /// A message comes through in time, and as often as it was sent.
    fn mail_goes_on(&mut self, text: &str) {
        self.mail_goes_on_within(DELIVERY, text);
    }

    /// `limit` holds for the sender's call, and from there to the reader, whose call it is, too.
    fn mail_goes_on_within(&mut self, limit: Duration, text: &str) {
        let asked = Instant::now();
        let id = self.alice.send("b", "sb", text);
        let (called, sent) = (asked.elapsed(), Instant::now());
        let mail = eventually("mail through the good relay", || {
            let mut inbox = self.bob.inbox();
            let mine = |m: &Value| m["receipt"]["msg_id"] == *id;
            inbox.retain(mine);
            (!inbox.is_empty()).then_some(inbox)
        });
        let took = sent.elapsed();
        assert!(
            called < limit && took < limit,
            "{called:?} to send, {took:?} to arrive"
        );
        assert_eq!(mail.len(), 1);
        self.bob.acknowledge(&mail);
    }

    /// The relay is polled `polls` times; not before `least`.
    fn polled_slowly(&mut self, polls: u64, least: Duration) {
        let (start, before) = (Instant::now(), count(&self.hostile.seen.recv));
        eventually("polls of the hostile relay", || {
            (count(&self.hostile.seen.recv) >= before + polls).then_some(())
        });
        let took = start.elapsed();
        assert!(took >= least, "{polls} polls in {took:?}");
    }

    fn stays_small(&self) {
        let grown = peak_kib(self.bob.pid()).saturating_sub(self.before_kib);
        println!("grown by {grown} KiB");
        assert!(grown < GROWTH_KIB, "{grown} KiB");
    }

    /// Lines of complaint about the hostile relay in a log.
    fn complaints(&self) -> usize {
        let log = self.bob.stderr();
        let url = self.hostile.url();
        log.lines()
            .filter(|l| l.contains("WARN") && l.contains(&url))
            .count()
    }
}

/// The most memory that a process had, in KiB; 0 where the system does not say.
fn peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .and_then(|l| l.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}

#[test]
fn a_relay_that_never_answers_delays_no_mail_of_another_one() {
    let mut scene = Scene::new(|_| Act::Silence);
    for n in 0..3 {
        scene.mail_goes_on(&format!("{n}"));
    }
    // One long poll each, and nothing that repeats.
    assert!(count(&scene.hostile.seen.recv) <= 2);
}

#[test]
fn empty_answers_at_once_are_asked_for_slowly() {
    let texts = [r#"{"status":"timeout"}"#, r#"{"messages":[]}"#, "{}"];
    let mut scene = Scene::new(move |r| match r.route.as_str() {
        "GET /recv" => Act::Reply(200, texts[r.n as usize % texts.len()].into()),
        _ => dull(r),
    });
    scene.mail_goes_on("meanwhile");
    // Both poll it, so two requests may belong to one pause: 1 + 2 + 3 s.
    scene.polled_slowly(8, Duration::from_secs(4));
    scene.mail_goes_on("and later");
}

#[test]
fn nonsense_in_every_answer_stops_nothing() {
    let deep = "[".repeat(500_000);
    let texts = vec![
        String::new(),
        "nonsense".into(),
        "null".into(),
        "[]".into(),
        r#"{"messages":{}}"#.into(),
        r#"{"messages":[{}]}"#.into(),
        r#"{"messages":[{"ack":7}]}"#.into(),
        r#"{"status":"message","ack":"k"}"#.into(),
        r#"{"ack":"k","envelope":{"payload":7,"ts":-1}}"#.into(),
        r#"{"ack":"k","envelope":{"payload":{"from":"x"}}}"#.into(),
        format!(r#"{{"messages":[{{"ack":"{}"}}]}}"#, "k".repeat(100_000)),
        format!(r#"{{"ack":"k","envelope":{{"payload":{deep}"#),
        format!(
            r#"{{"ack":"k","envelope":{{"payload":{deep}{}}}}}"#,
            "]".repeat(500_000)
        ),
        deep,
        "\u{0}\u{1}\u{feff}{}".into(),
    ];
    let kinds = texts.len() as u64;
    let mut scene = Scene::new(move |r| Act::Reply(200, texts[r.n as usize % texts.len()].clone()));
    scene.mail_goes_on("meanwhile");
    eventually("every kind of nonsense, twice over both", || {
        (count(&scene.hostile.seen.recv) >= kinds).then_some(())
    });
    scene.mail_goes_on("and later");
    scene.stays_small();
}

#[test]
fn errors_at_once_are_asked_for_slowly() {
    let codes = [500, 503, 404, 429, 418, 200];
    let mut scene =
        Scene::new(move |r| Act::Reply(codes[r.n as usize % codes.len()], "trouble".into()));
    scene.mail_goes_on("meanwhile");
    scene.polled_slowly(6, Duration::from_secs(3));
    scene.mail_goes_on("and later");
    // Neither are messages thrown at it again and again.
    assert!(count(&scene.hostile.seen.send) < 20);
}

#[test]
fn redirects_are_never_followed() {
    let trap = Hostile::start(|_| Act::Reply(200, r#"{"status":"timeout"}"#.into()));
    let to = trap.url();
    let codes = [301, 302, 303, 307, 308];
    let mut scene = Scene::new(move |r| {
        let path = r.route.split(' ').nth(1).unwrap();
        let headers = format!("location: {to}{path}\r\n");
        Act::Headers(codes[r.n as usize % codes.len()], headers, String::new())
    });
    scene.mail_goes_on("meanwhile");
    scene.polled_slowly(6, Duration::from_secs(2));
    let seen = &scene.hostile.seen;
    assert!(count(&seen.send) > 0 && count(&seen.announce) > 0);
    for counter in [&trap.seen.recv, &trap.seen.send, &trap.seen.announce] {
        assert_eq!(count(counter), 0);
    }
}

#[test]
fn answers_without_end_are_hung_up_on_at_their_bound() {
    for length in ["", "content-length: 99999999999\r\n", "chunked"] {
        let (start, pattern) = match length {
            "chunked" => {
                let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
                (
                    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned(),
                    chunk,
                )
            }
            length => (
                format!("HTTP/1.1 200 OK\r\n{length}\r\n"),
                " ".repeat(0x10000),
            ),
        };
        let (start, pattern) = (start.into_bytes(), pattern.into_bytes());
        let mut scene = Scene::new(move |_| Act::Endless(start.clone(), pattern.clone()));
        scene.mail_goes_on("meanwhile");
        let seen = Arc::clone(&scene.hostile.seen);
        eventually("a client that hangs up", || {
            (count(&seen.hung_up) >= 2).then_some(())
        });
        let taken = count(&seen.swallowed);
        // The bound of an answer with mail, and what is on its way in the buffers of both ends.
        assert!(taken < (12 << 20) + (16 << 20), "{taken} bytes: {length:?}");
        scene.mail_goes_on("and later");
        scene.stays_small();
    }
}

#[test]
fn headers_without_end_are_hung_up_on() {
    let line = format!("x: {}\r\n", "y".repeat(1000));
    let start = b"HTTP/1.1 200 OK\r\n".to_vec();
    let pattern = line.repeat(16).into_bytes();
    let mut scene = Scene::new(move |_| Act::Endless(start.clone(), pattern.clone()));
    scene.mail_goes_on("meanwhile");
    let seen = Arc::clone(&scene.hostile.seen);
    eventually("a client that hangs up", || {
        (count(&seen.hung_up) >= 2).then_some(())
    });
    let taken = count(&seen.swallowed);
    assert!(taken < 16 << 20, "{taken}");
    scene.mail_goes_on("and later");
    scene.stays_small();
}

#[test]
fn a_slow_drip_holds_up_its_own_relay_only() {
    let mut scene = Scene::new(|_| Act::Drip);
    for n in 0..3 {
        scene.mail_goes_on(&format!("{n}"));
    }
    assert!(count(&scene.hostile.seen.recv) <= 2);
}

#[test]
fn connections_that_break_anywhere_stop_nothing() {
    let mut scene = Scene::new(|r| match r.n % 4 {
        0 => Act::Reset,
        1 => Act::Raw(vec![]),
        2 => Act::Raw(b"HTTP/1.1 200".to_vec()),
        _ => Act::Raw(b"\x16\x03\x01\x02\x00garbage\r\n\r\n".to_vec()),
    });
    scene.mail_goes_on("meanwhile");
    scene.polled_slowly(6, Duration::from_secs(2));
    scene.mail_goes_on("and later");
}

#[test]
fn lists_that_are_short_as_text_are_not_large_in_memory() {
    let many = |item: &str, n: usize| vec![item; n].join(",");
    let batch = format!(r#"{{"messages":[{}]}}"#, many(r#"{"ack":"k"}"#, 700_000));
    let board = format!(r#"{{"roster":[{}]}}"#, many("0", 2_000_000));
    let mut scene = Scene::new(move |r| match r.route.as_str() {
        "GET /recv" => Act::Reply(200, batch.clone()),
        "GET /roster" => Act::Reply(200, board.clone()),
        _ => dull(r),
    });
    scene.mail_goes_on("meanwhile");
    // A name without a session makes it read the board.
    let _ = scene
        .bob
        .call_raw("send_message", &json!({ "to": "a", "text": "x" }));
    eventually("several batches", || {
        (count(&scene.hostile.seen.recv) >= 6).then_some(())
    });
    scene.stays_small();
    assert!(scene.complaints() < 12, "{}", scene.bob.stderr());
}

#[test]
fn mail_that_is_played_again_for_ever_is_read_once_and_costs_little() {
    let kept: Arc<Mutex<Vec<Value>>> = Arc::default();
    let into = Arc::clone(&kept);
    let mut scene = Scene::new(move |r| match r.route.as_str() {
        "POST /send" => {
            let sent: Value = serde_json::from_slice(&r.body).unwrap();
            into.lock().unwrap().push(sent["payload"].clone());
            Act::Reply(202, String::new())
        }
        // All that it ever saw, to whoever asks, rotated, under new keys.
        "GET /recv" => {
            let kept = into.lock().unwrap();
            let all = kept.len();
            let messages: Vec<Value> = (0..all)
                .map(|i| {
                    let payload = &kept[(i + r.n as usize) % all];
                    json!({ "ack": format!("{}-{i}", r.n), "envelope": { "payload": payload, "ts": 1 } })
                })
                .collect();
            Act::Reply(200, json!({ "messages": messages }).to_string())
        }
        _ => dull(r),
    });
    let texts: Vec<String> = (0..8).map(|n| n.to_string()).collect();
    for text in &texts {
        scene.alice.send("b", "sb", text);
    }
    let mail = scene.bob.inbox_of(8);
    scene.bob.acknowledge(&mail);
    // Slow in the end: then a dozen requests of two programs take seconds.
    let seen = Arc::clone(&scene.hostile.seen);
    eventually("it is asked slowly", || {
        let (start, before) = (Instant::now(), count(&seen.recv));
        eventually("polls", || (count(&seen.recv) >= before + 8).then_some(()));
        (start.elapsed() > Duration::from_secs(2)).then_some(())
    });
    assert!(
        count(&seen.recv) < 2 * 2 * (2048 / 8 + 64),
        "{}",
        count(&seen.recv)
    );
    assert_eq!(scene.bob.inbox(), Vec::<Value>::new());
    scene.mail_goes_on("and later");
    let history = scene.bob.call(
        "conversation_history",
        &json!({ "peer": "a", "limit": 100 }),
    );
    assert_eq!(
        history["messages"].as_array().map(Vec::len),
        Some(9),
        "{history}"
    );
}

#[test]
fn a_relay_that_ignores_acknowledgements_is_asked_slowly() {
    let junk = json!({ "ack": "the same", "envelope": { "payload": { "junk": 1 }, "ts": 1 } });
    let mut scene = Scene::new(move |r| match r.route.as_str() {
        "GET /recv" => Act::Reply(200, junk.to_string()),
        _ => dull(r),
    });
    scene.mail_goes_on("meanwhile");
    scene.polled_slowly(8, Duration::from_secs(4));
    assert!(scene.complaints() < 12, "{}", scene.bob.stderr());
}

#[test]
fn junk_without_end_makes_few_lines_of_log() {
    let mut scene = Scene::new(|r| match r.route.as_str() {
        "GET /recv" => {
            let messages: Vec<Value> = (0..32)
                .map(|i| json!({ "ack": format!("{}-{i}", r.n), "envelope": { "payload": i } }))
                .collect();
            Act::Reply(200, json!({ "messages": messages }).to_string())
        }
        _ => dull(r),
    });
    scene.mail_goes_on("meanwhile");
    let seen = Arc::clone(&scene.hostile.seen);
    eventually("a thousand pieces of junk", || {
        (count(&seen.recv) >= 64).then_some(())
    });
    scene.mail_goes_on("and later");
    assert!(scene.complaints() < 12, "{}", scene.bob.stderr());
}

/// An announcement of a session, signed by a seed.
fn announced(seed: u8, session: &str) -> Value {
    let identity = SigningIdentity::from_seed(&Secret::new([seed; 32]));
    let info = SessionInfo {
        session_id: session.into(),
        ..SessionInfo::default()
    };
    let ts = UnixMillis(crate::relays::now_ms());
    let announcement = Announcement::sign(&identity, "n".into(), info, ts);
    serde_json::to_value(announcement).unwrap()
}

#[test]
fn a_forged_board_leads_no_message_astray() {
    // Alice's friend has seed 0x0b; everything else here is a lie about him.
    let friend = announced(0x0b, "real");
    let mut other_session = friend.clone();
    other_session["session"]["session_id"] = json!("forged");
    let mut other_key = announced(0x0c, "stranger");
    other_key["pubkey"] = friend["pubkey"].clone();
    let mut no_signature = announced(0x0b, "unsigned");
    no_signature["sig"] = json!("A".repeat(86));
    let board = json!({ "roster": [
        7, {}, null, { "pubkey": friend["pubkey"] }, other_session, other_key, no_signature,
        announced(0x0c, "another"),
    ] });
    let mut scene = Scene::new(move |r| match r.route.as_str() {
        "GET /roster" => Act::Reply(200, board.to_string()),
        _ => dull(r),
    });
    // By name alone: the one session that his key announced, through the good relay.
    let id = eventually("his presence", || {
        let sent = scene
            .alice
            .call_raw("send_message", &json!({ "to": "b", "text": "to you" }));
        sent["result"]["structuredContent"]["msg_id"]
            .as_str()
            .map(str::to_owned)
    });
    assert!(count(&scene.hostile.seen.roster) > 0);
    assert_eq!(scene.alice.state_of(&id)["session"], "sb");
    assert_eq!(scene.bob.inbox_of(1)[0]["receipt"]["msg_id"], *id);
}

#[test]
fn keys_of_deliveries_go_back_as_they_came_and_only_to_their_relay() {
    let odd = [
        "",
        "\u{0}",
        "not#mine\u{0}00000000000000000007",
        "\u{202e}\"\\",
    ];
    let mut scene = Scene::new(move |r| match r.route.as_str() {
        "GET /recv" if r.n < 8 => {
            let ack = odd[r.n as usize % odd.len()];
            Act::Reply(
                200,
                json!({ "ack": ack, "envelope": { "payload": 1 } }).to_string(),
            )
        }
        "POST /ack" => Act::Reply(403, String::new()),
        _ => dull(r),
    });
    let seen = Arc::clone(&scene.hostile.seen);
    eventually("acknowledgements", || (count(&seen.ack) >= 4).then_some(()));
    for ack in seen.acks.lock().unwrap().iter() {
        assert!(odd.iter().any(|key| ack["ack"] == *key), "{ack}");
    }
    scene.mail_goes_on("and later");
}

/// Takes the time that it needs: the process has to stand still for longer than a busy machine
/// would make it.
#[test]
fn who_stood_still_for_long_asks_and_announces_anew_at_once() {
    if std::env::var_os("INTERLINK_LONG").is_none_or(|v| v != "1") {
        return;
    }
    let relay = Hostile::start(dull);
    let home = Home::new(1);
    let agent = home.start(&relay.url(), "s");
    let seen = Arc::clone(&relay.seen);
    eventually("the first poll", || (count(&seen.recv) > 0).then_some(()));
    agent.signal("STOP");
    std::thread::sleep(Duration::from_secs(31));
    let (polls, announced) = (count(&seen.recv), count(&seen.announce));
    let woke = Instant::now();
    agent.signal("CONT");
    eventually("a new poll and a new announcement", || {
        (count(&seen.recv) > polls && count(&seen.announce) > announced).then_some(())
    });
    assert!(
        woke.elapsed() < Duration::from_secs(4),
        "{:?}",
        woke.elapsed()
    );
    assert!(agent.stderr().contains("connecting anew"));
}

#[test]
fn interim_answers_without_end_stop_nothing() {
    let mut scene = Scene::new(|_| {
        let interim = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(1000);
        Act::Endless(interim.clone(), interim)
    });
    // They come as fast as this very machine makes them, and take their share of it.
    let limit = 5 * DELIVERY;
    scene.mail_goes_on_within(limit, "meanwhile");
    scene.mail_goes_on_within(limit, "and later");
    scene.stays_small();
}
