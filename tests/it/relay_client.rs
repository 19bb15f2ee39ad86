//! The HTTP client of a relay, without a channel server around it.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use interlink::agent::client::{RelayClient, RelayUrl};
use interlink::agent::connect::Authorities;

/// A relay that answers every request with an empty board; counts its connections.
fn counting() -> (RelayUrl, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = RelayUrl::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let connections = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&connections);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            count.fetch_add(1, Ordering::SeqCst);
            thread::spawn(move || {
                let mut bytes = [0u8; 4096];
                // Each request of these tests is one segment.
                while stream.read(&mut bytes).is_ok_and(|n| n > 0) {
                    let body = r#"{"roster":[]}"#;
                    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                    if stream
                        .write_all(format!("{head}{body}").as_bytes())
                        .is_err()
                    {
                        return;
                    }
                }
            });
        }
    });
    (url, connections)
}

#[test]
fn connections_are_used_again_until_they_are_given_up() {
    let (url, connections) = counting();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let all = RelayClient::all(&[url.clone(), url], &Authorities::default()).unwrap();
        for _ in 0..3 {
            all[0].roster().await.unwrap();
        }
        assert_eq!(connections.load(Ordering::SeqCst), 1);
        // As after sleep: whoever of the relays asks for it, all of them start anew.
        all[1].renew_connections().unwrap();
        for _ in 0..3 {
            all[0].roster().await.unwrap();
        }
        assert_eq!(connections.load(Ordering::SeqCst), 2);
    });
}
