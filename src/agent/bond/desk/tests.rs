use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc as std_mpsc;
use std::thread;

use super::*;
use crate::agent::bond::books::BondBooks;
use crate::agent::bond::relay::BondUrl;
use crate::agent::connect::Authorities;
use crate::agent::ledger::Ledger;
use crate::store::{Location, OpenOptions, Store};

/// A relay that says yes to everything and has no news.
fn relay() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).unwrap_or(0) > 2 {
                let header = line.to_ascii_lowercase();
                if let Some(n) = header.strip_prefix("content-length:") {
                    length = n.trim().parse().unwrap_or(0);
                }
                line.clear();
            }
            let _ = reader.read_exact(&mut vec![0; length]);
            let body = r#"{"ok":true,"messages":[],"disconnected":false}"#;
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
        }
    });
    url
}

fn desk(dir: &Path) -> Arc<Desk> {
    let clock = Arc::new(SystemClock);
    let options = OpenOptions::shared(Location::Memory);
    let store = Store::open(options, clock.clone(), None).unwrap();
    let session = SessionId::parse("s").unwrap();
    let books = BondBooks::new(Arc::new(Ledger::over(store)), clock, session, None);
    let config = BondConfig {
        relay: BondUrl::parse(&relay()),
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_is_not_asked_for_more_while_the_disk_is_behind() {
    let dir = tempfile::tempdir().unwrap();
    let desk = desk(dir.path());
    let here = SessionId::parse("s").unwrap();
    desk.connect(None, &here).await.unwrap();
    // No folder can be made below a file: the first piece fails, and whoever hears of it takes his time.
    let file = dir.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let (go_on, gate) = std_mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let room = Arc::new(Notify::new());
    let arrivals = Arrivals::start(file.join("incoming"), Arc::clone(&room), move |_, _| {
        let _ = gate.lock().unwrap().recv();
    });
    let piece = OfferId::from_bytes([1; 8]);
    let mut offset = 0;
    while !arrivals.is_full() {
        arrivals.append(piece.clone(), offset, vec![0; 192 << 10]);
        offset += 192 << 10;
    }
    let session = desk.lock().last_id;
    let behind = desk.with(session, |live| {
        live.arrivals = Some(arrivals);
        live.poll = Some(7);
        (live.take_poll(), live.poll)
    });
    assert_eq!(behind, Some((None, Some(7))));
    go_on.send(()).unwrap();
    let there = tokio::time::timeout(Duration::from_secs(20), room.notified());
    there.await.expect("the disk is done");
    let again = desk.with(session, |live| {
        live.poll = Some(7);
        live.take_poll()
    });
    assert_eq!(again, Some(Some(7)));
}
