//! Relays behind TLS: a terminating proxy with the certificates of `tests/golden/tls`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::bond_bus;
use crate::bond_support::{BondRelay, ask, bad, bonded, event, start};
use crate::http::Bus;
use crate::mcp_support::{Agent, Home, eventually, friends};

/// A file of `tests/golden/tls`.
fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/tls/{name}.pem"))
}

fn ca(name: &str) -> String {
    golden(name).display().to_string()
}

/// A TLS proxy before somebody who speaks plain HTTP.
struct Front {
    addr: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

impl Front {
    fn start(certificate: &str, behind: SocketAddr) -> Front {
        let file = golden(certificate);
        let chain = CertificateDer::pem_file_iter(&file).unwrap();
        let provider = Arc::new(rustls_graviola::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                chain.map(Result::unwrap).collect(),
                PrivateKeyDer::from_pem_file(&file).unwrap(),
            )
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let addr = listener.local_addr().unwrap();
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut client = acceptor.accept(client).await.ok()?;
                    let mut relay = TcpStream::connect(behind).await.ok()?;
                    tokio::io::copy_bidirectional(&mut client, &mut relay)
                        .await
                        .ok()
                });
            }
        });
        Front {
            addr,
            _runtime: runtime,
        }
    }

    fn url(&self) -> String {
        format!("https://localhost:{}", self.addr.port())
    }
}

fn agent(home: &Home, relay: &str, authority: &str) -> Agent {
    start(home, relay, &[("INTERLINK_RELAY_CA", &ca(authority))])
}

#[test]
fn two_strangers_meet_at_a_bus_behind_tls() {
    let dir = tempfile::tempdir().unwrap();
    let bus = bond_bus::Bus::start(dir.path());
    let front = Front::start("relay", bus.relay);
    let homes = [Home::new(1), Home::new(2)];
    let mut host = agent(&homes[0], &front.url(), "ca");
    // By address as by name.
    let by_address = format!("https://{}", front.addr);
    let mut guest = agent(&homes[1], &by_address, "ca");
    bonded(&mut host, &mut guest);
    eventually("the host may speak", || {
        let (failed, _, _) = ask(&mut host, "bond_message", &json!({ "content": "hello" }));
        (!failed).then_some(())
    });
    assert!(event(&mut guest, "message")["text"].is_string());
}

#[test]
fn mail_goes_through_a_bus_behind_tls() {
    let bus = Bus::start();
    let front = Front::start("relay", bus.addr);
    let (a, b) = friends();
    let start = |home: &Home, session: &str| {
        let mut command = home.command(&front.url(), session);
        command.env("INTERLINK_RELAY_CA", ca("ca"));
        Agent::start(command)
    };
    let (mut alice, mut bob) = (start(&a, "sa"), start(&b, "sb"));
    let id = alice.send("b", "sb", "hello");
    assert_eq!(bob.inbox_of(1)[0]["receipt"]["msg_id"], *id);
    for agent in [alice, bob] {
        assert!(!agent.stderr().contains("not encrypted"));
    }
}

#[test]
fn who_is_not_the_relay_is_refused_and_the_cause_is_told() {
    let relay = BondRelay::start();
    for (certificate, host, authority, cause) in [
        (
            "relay",
            "localhost",
            "other",
            "from no authority that is trusted here",
        ),
        ("name", "localhost", "ca", "for another name"),
        ("relay", "127.0.0.2", "ca", "for another name"),
        ("expired", "localhost", "ca", "has expired"),
    ] {
        let front = Front::start(certificate, relay.addr);
        // 127.0.0.2 is this machine too, but nobody vouches for it.
        let addr = front.addr;
        let url = match host {
            "127.0.0.2" => {
                let Some(other) = second_address(addr) else {
                    continue;
                };
                format!("https://{other}")
            }
            host => format!("https://{host}:{}", addr.port()),
        };
        let home = Home::new(1);
        let mut host = agent(&home, &url, authority);
        let said = bad(&mut host, "bond_connect", &json!({}));
        assert!(said.contains(cause), "{certificate}, {authority}: {said}");
        assert!(
            relay.asked("/create").is_empty(),
            "{certificate}, {authority}"
        );
    }
}

/// The same listener at another loopback address, where this machine has one.
fn second_address(front: SocketAddr) -> Option<SocketAddr> {
    let listener = std::net::TcpListener::bind("127.0.0.2:0").ok()?;
    let addr = listener.local_addr().ok()?;
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut server = std::net::TcpStream::connect(front).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            std::thread::spawn(move || std::io::copy(&mut server, &mut client));
        }
    });
    Some(addr)
}

#[test]
fn plain_http_where_tls_should_be_is_refused_and_the_other_way_round() {
    let relay = BondRelay::start();
    let home = Home::new(1);
    let mut host = agent(&home, &format!("https://{}", relay.addr), "ca");
    let said = bad(&mut host, "bond_connect", &json!({}));
    assert!(
        said.contains("no connection to the relay") || said.contains("cannot be reached"),
        "{said}"
    );
    drop(host);
    let front = Front::start("relay", relay.addr);
    let mut host = agent(&home, &format!("http://{}", front.addr), "ca");
    let said = bad(&mut host, "bond_connect", &json!({}));
    assert!(said.contains("cannot be reached"), "{said}");
    assert!(relay.asked("/create").is_empty());
}

#[test]
fn a_redirect_is_not_followed_over_tls_either() {
    let (relay, elsewhere) = (BondRelay::start(), BondRelay::start());
    let (front, other) = (
        Front::start("relay", relay.addr),
        Front::start("relay", elsewhere.addr),
    );
    let target = format!("location: {}/create\r\n", other.url());
    relay.meddle(move |_| Some(Some((307, target.clone(), String::new()))));
    let home = Home::new(1);
    let mut host = agent(&home, &front.url(), "ca");
    let said = bad(&mut host, "bond_connect", &json!({}));
    assert!(said.contains("307"), "{said}");
    assert_eq!(relay.asked("/create").len(), 1);
    assert!(elsewhere.asked("/create").is_empty());
}

#[test]
fn without_a_file_the_authorities_of_the_system_decide() {
    let relay = BondRelay::start();
    let front = Front::start("relay", relay.addr);
    let home = Home::new(1);
    let mut host = start(&home, &front.url(), &[]);
    let said = bad(&mut host, "bond_connect", &json!({}));
    // A bare system trusts nobody and says so; either way the flag is named that helps.
    assert!(said.contains("--relay-ca FILE"), "{said}");
    assert!(relay.asked("/create").is_empty());
}

#[test]
fn a_file_without_authorities_ends_the_program_with_its_name() {
    let home = Home::new(1);
    let empty = home.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    for (path, words) in [
        (empty, "the file holds none in PEM form"),
        (home.path().join("none.pem"), "none.pem: "),
    ] {
        let output = home
            .command("http://127.0.0.1:9", "s")
            .env("INTERLINK_RELAY_CA", &path)
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("--relay-ca: ") && said.contains(words),
            "{said}"
        );
    }
}
