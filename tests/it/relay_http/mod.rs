//! The relay of sealed sessions, row by row: statuses, codes, headers, order of checks, queues.

mod flow;
mod life;
#[cfg(all(target_os = "linux", feature = "agent", feature = "cli"))]
mod process;
mod queues;
mod rows;
mod store;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use interlink::bus::{Config, RelayConfig};
use serde_json::{Value, json};

use super::http::{Bus, Conn, FakeClock, Reply};

/// 64 hex digits that begin with a number.
fn id(n: u32) -> String {
    format!("{n:08x}").repeat(8)
}

/// A bus with a relay on a clock that stands still; empty polls are answered at once.
struct Relay {
    bus: Bus,
    addr: SocketAddr,
    clock: Arc<FakeClock>,
}

const START: u64 = 1_800_000_000_000;

impl Relay {
    fn start() -> Relay {
        Relay::with(|_| {}, |_| {})
    }

    fn with(change: impl FnOnce(&mut Config), relay: impl FnOnce(&mut RelayConfig)) -> Relay {
        let clock = FakeClock::new(START);
        let mut config = RelayConfig::new("127.0.0.1:0".into());
        config.hold = Duration::ZERO;
        relay(&mut config);
        let bus = Bus::with(|bus| {
            bus.clock = clock.clone();
            bus.relay = Some(config);
            change(bus);
        });
        let addr = bus.relay_addr().unwrap();
        Relay { bus, addr, clock }
    }

    fn connect(&self) -> Peer {
        Peer(Conn::open(self.addr))
    }

    /// A session of peers 1 and 2 with routing id 9; the host has polled nothing yet.
    fn paired(&self) -> Peer {
        let mut peer = self.connect();
        peer.create(9, 1).is_ok();
        peer.join(9, 2).is_ok();
        peer
    }
}

/// A connection to a relay.
struct Peer(Conn);

impl Peer {
    fn post(&mut self, path: &str, body: &Value) -> Said {
        Said(self.0.post(path, &body.to_string()))
    }

    fn text(&mut self, path: &str, body: &[u8]) -> Said {
        Said(self.0.request("POST", path, &[], Some(body)))
    }

    fn get(&mut self, target: &str) -> Said {
        Said(self.0.get(target))
    }

    fn create(&mut self, routing: u32, peer: u32) -> Said {
        let body =
            json!({"routingId": id(routing), "publicKey": id(peer + 100), "peerId": id(peer)});
        self.post("/create", &body)
    }

    fn join(&mut self, routing: u32, peer: u32) -> Said {
        let body =
            json!({"routingId": id(routing), "publicKey": id(peer + 100), "peerId": id(peer)});
        self.post("/join", &body)
    }

    fn send(&mut self, routing: u32, peer: u32, payload: &Value) -> Said {
        let body = json!({
            "routingId": id(routing), "fromPeerId": id(peer), "encryptedPayload": payload,
        });
        self.post("/send", &body)
    }

    fn disconnect(&mut self, routing: u32, peer: u32) -> Said {
        let body = json!({"routingId": id(routing), "peerId": id(peer)});
        self.post("/disconnect", &body)
    }

    fn poll(&mut self, routing: u32, peer: u32, since: u64) -> Said {
        self.get(&format!(
            "/poll?routingId={}&peerId={}&since={since}",
            id(routing),
            id(peer)
        ))
    }
}

/// An answer, whose headers were checked.
struct Said(Reply);

impl Said {
    #[track_caller]
    fn checked(&self) -> Value {
        for (name, value) in [
            ("content-type", "application/json"),
            (
                "strict-transport-security",
                "max-age=31536000; includeSubDomains",
            ),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("content-security-policy", "default-src 'none'"),
            ("referrer-policy", "no-referrer"),
        ] {
            assert_eq!(self.0.header(name), Some(value), "{name}");
        }
        let cors = |(name, _): &&(String, String)| name.starts_with("access-control");
        assert_eq!(self.0.headers.iter().find(cors), None);
        self.0.json()
    }

    #[track_caller]
    fn is_ok(&self) -> Value {
        assert_eq!(self.0.status, 200, "{}", self.0.text());
        self.checked()
    }

    #[track_caller]
    fn is(&self, status: u16, code: &str, error: &str) -> Value {
        assert_eq!(self.0.status, status, "{}", self.0.text());
        let said = self.checked();
        assert_eq!(said["code"], code);
        assert_eq!(said["error"], error);
        said
    }

    /// The numbers of a poll's messages.
    #[track_caller]
    fn seqs(&self) -> Vec<u64> {
        let said = self.is_ok();
        let messages = said["messages"].as_array().unwrap();
        messages
            .iter()
            .map(|m| m["seq"].as_u64().unwrap())
            .collect()
    }

    #[track_caller]
    fn is_gone(&self) {
        assert_eq!(self.is_ok(), json!({"messages": [], "disconnected": true}));
    }
}
