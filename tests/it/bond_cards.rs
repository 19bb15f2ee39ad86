//! The other side of a session that is not honest about who it is.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use interlink::crypto::sign::SigningIdentity;
use interlink::domain::machine::bond::{
    Action, Delivery, Happening, Input, OwnHappening, OwnInput, OwnSession, Phase, Policy, Polled,
    Role,
};
use interlink::system::SystemClock;
use interlink::testkit::SeededEntropy;
use interlink::types::secret::Secret;
use interlink::types::time::Clock as _;
use interlink::wire::bond::identity::PinCard;
use interlink::wire::bond::own_code::OwnCode;
use serde_json::{Value, json};

use crate::bond_pin::{TOOL, audit, peers};
use crate::bond_support::{BondRelay, event, good, start};
use crate::mcp_support::{Agent, Home, eventually};

/// A guest whose machine is honest and who is not.
struct Guest {
    session: OwnSession,
    entropy: SeededEntropy,
    relay: SocketAddr,
    since: u64,
    cards: Vec<Vec<u8>>,
}

fn call(relay: SocketAddr, head: &str, body: &str) -> Value {
    let mut stream = TcpStream::connect(relay).unwrap();
    let length = body.len();
    let head = format!(
        "{head} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut bytes = vec![];
    loop {
        let mut chunk = [0; 4096];
        let n = stream.read(&mut chunk).unwrap();
        bytes.extend_from_slice(&chunk[..n]);
        let text = String::from_utf8_lossy(&bytes);
        let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        match serde_json::from_str(body) {
            Ok(value) => return value,
            Err(_) => assert_ne!(n, 0, "{text}"),
        }
    }
}

impl Guest {
    /// Opens a session with a channel server; it is confirmed when this returns.
    fn meet(seed: u64, host: &mut Agent, relay: SocketAddr) -> Guest {
        let (_, opened) = good(host, "bond_connect", &json!({ "spoken": true }));
        let code: OwnCode = opened["session_code"].as_str().unwrap().parse().unwrap();
        let entropy = SeededEntropy::new(seed);
        let policy = Policy {
            max_file_bytes: 1 << 20,
            name_rule: |_| Ok(()),
        };
        let now = SystemClock.now();
        let (session, actions) =
            OwnSession::open(Role::Guest, &code, policy, now, &entropy).unwrap();
        let mut guest = Guest {
            session,
            entropy,
            relay,
            since: 0,
            cards: vec![],
        };
        guest.carry_out(actions);
        eventually("confirmed", || {
            guest.turn();
            (guest.session.phase() == Phase::Confirmed).then_some(())
        });
        event(host, "confirmed");
        guest
    }

    fn feed(&mut self, input: Input) {
        let actions = self.session.step(SystemClock.now(), input, &self.entropy);
        self.carry_out(actions.unwrap());
    }

    fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            let (routing, me) = (self.session.routing(), self.session.me());
            match action {
                Action::Join { key, .. } => {
                    let body = json!({ "routingId": routing.to_string(), "peerId": me.to_string(),
                        "publicKey": key.to_string() });
                    let joined = call(self.relay, "POST /join", &body.to_string());
                    let host_key = joined["hostPublicKey"].as_str().unwrap().to_owned();
                    self.feed(Input::Joined { host_key });
                }
                Action::Post {
                    ticket, payload, ..
                } => {
                    let payload: Value = serde_json::from_str(&payload).unwrap();
                    let body = json!({ "routingId": routing.to_string(), "fromPeerId": me.to_string(),
                        "encryptedPayload": payload });
                    call(self.relay, "POST /send", &body.to_string());
                    self.feed(Input::Posted { ticket });
                }
                Action::Poll { since } => self.since = since,
                Action::Tell(Happening::Own(OwnHappening::Pin(card))) => self.cards.push(card),
                _ => {}
            }
        }
    }

    /// Asks the relay once.
    fn turn(&mut self) {
        self.feed(Input::Tick);
        let (routing, me) = (self.session.routing(), self.session.me());
        let head = format!(
            "GET /poll?routingId={routing}&peerId={me}&since={}",
            self.since
        );
        let reply = call(self.relay, &head, "");
        let messages = reply["messages"].as_array().cloned().unwrap_or_default();
        let messages = messages.into_iter().map(|m| Delivery {
            from: m["from"].as_str().unwrap().to_owned(),
            seq: m["seq"].as_u64().unwrap(),
            payload: m["payload"].clone(),
        });
        self.feed(Input::Polled(Polled {
            messages: messages.collect(),
            oldest_seq: reply["oldestSeq"].as_u64(),
            disconnected: reply["disconnected"] == true,
        }));
    }

    fn say(&mut self, card: Vec<u8>) {
        self.feed(Input::Own(OwnInput::Pin(card)));
        self.feed(Input::Tick);
    }

    fn card(&self, who: u8) -> Vec<u8> {
        let identity = SigningIdentity::from_seed(&Secret::new([who; 32]));
        let binding = self.session.binding().unwrap();
        PinCard::write(&identity, &binding, Role::Guest, "mallory", "")
    }
}

#[test]
fn a_card_from_another_session_or_side_or_a_second_one_pins_nobody() {
    let relay = BondRelay::start();
    let home = Home::new(1);
    let mut host = start(&home, &relay.url(), TOOL);
    let mut first = Guest::meet(70, &mut host, relay.addr);
    let old = first.card(8);
    first.say(old.clone());
    event(&mut host, "pin_asked");
    good(&mut host, "bond_end", &json!({}));
    host.notices.clear();

    let mut guest = Guest::meet(71, &mut host, relay.addr);
    // The host's human has agreed: now the first card that counts is taken.
    good(&mut host, "bond_pin", &json!({ "petname": "mallory" }));
    eventually("the host's card", || {
        guest.turn();
        guest.cards.first().cloned()
    });
    let reflected = guest.cards[0].clone();
    for card in [old, reflected, b"{}".to_vec()] {
        guest.say(card);
        let told = event(&mut host, "dropped");
        let text = told["text"].as_str().unwrap();
        assert!(text.contains("proves nothing"), "{text}");
        assert_eq!(peers(&mut host), [json!(null); 0]);
    }
    let own = guest.card(8);
    guest.say(own.clone());
    event(&mut host, "pinned");
    let there = peers(&mut host);
    assert_eq!(there.len(), 1, "{there:?}");
    // The same again is nothing new, and another key is too late.
    guest.say(own);
    let other = guest.card(9);
    guest.say(other);
    event(&mut host, "dropped");
    good(&mut host, "bond_pin", &json!({ "petname": "other" }));
    assert_eq!(peers(&mut host), there);
    host.close_stdin();
    host.wait();
    let log = audit(&home);
    assert_eq!(
        log.matches("\"tool\":\"pin_card_refused\"").count(),
        4,
        "{log}"
    );
}
