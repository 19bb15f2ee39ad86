//! Health and the operator's view.

use interlink::bus::AdminAccess;
use interlink::store::{Location, OpenOptions};
use interlink::wire::admin::{AdminFile, Depths, Queues, Records, Status, TableRows, Verification};
use interlink::wire::operator::{Board, Removed, Waiting, WaitingList};
use serde_json::json;

use crate::http::{Bus, Conn, Reply};

fn token() -> String {
    "5a".repeat(32)
}

fn ask(conn: &mut Conn, method: &str, path: &str) -> Reply {
    let bearer = format!("Bearer {}", token());
    let body: Option<&[u8]> = (method == "POST").then_some(b"");
    conn.request(method, path, &[("authorization", &bearer)], body)
}

fn read<T: serde::de::DeserializeOwned>(reply: &Reply) -> T {
    assert_eq!(reply.status, 200, "{}", reply.text());
    serde_json::from_slice(&reply.body).unwrap()
}

#[test]
fn the_admin_endpoint_shows_what_the_store_holds() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bus.redb");
    let file = dir.path().join("bus.redb.admin");
    let bus = Bus::with(|config| {
        config.store = OpenOptions::exclusive(Location::File(path.clone()));
        config.admin = Some(AdminAccess {
            file: file.clone(),
            token: token(),
        });
    });
    let known: AdminFile = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(known.url, format!("http://{}", bus.addr));
    assert_eq!((known.token, known.pid), (token(), std::process::id()));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        for file in [&file, &path] {
            let mode = std::fs::metadata(file).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o600, "{file:?}");
        }
    }

    let mut conn = bus.connect();
    conn.send("b", json!("hello"));
    conn.send("a", json!(1));
    conn.post("/announce", r#"{"pubkey":"k"}"#).is_empty(202);
    let all: Records = read(&ask(&mut conn, "GET", "/admin/v1/records"));
    assert_eq!(all.head, 3);
    let kinds: Vec<_> = all.records.iter().map(|r| r.kind.as_str()).collect();
    assert_eq!(kinds, ["enqueued", "enqueued", "announced"]);
    let page: Records = read(&ask(&mut conn, "GET", "/admin/v1/records?from=2&limit=1"));
    assert_eq!(page.records, all.records[1..2]);
    ask(&mut conn, "GET", "/admin/v1/records?from=x").is_problem(400);

    let queues: Queues = read(&ask(&mut conn, "GET", "/admin/v1/queues"));
    let names: Vec<_> = queues
        .queues
        .iter()
        .map(|q| (q.to.as_str(), q.messages))
        .collect();
    assert_eq!(names, [("a", 1), ("b", 1)]);
    for (table, rows) in [("pending", 2), ("drops", 0), ("roster", 1)] {
        let got: TableRows = read(&ask(&mut conn, "GET", &format!("/admin/v1/tables/{table}")));
        assert_eq!((got.table.as_str(), got.rows.len()), (table, rows));
    }
    ask(&mut conn, "GET", "/admin/v1/tables/peers").is_problem(404);
    // Page by page, and as it was.
    let rows = |conn: &mut _, query: &str| -> TableRows {
        read(&ask(
            conn,
            "GET",
            &format!("/admin/v1/tables/pending?{query}"),
        ))
    };
    let first = rows(&mut conn, "limit=1");
    assert_eq!((first.rows.len(), first.rows[0].key.as_str()), (1, "1"));
    let rest = rows(&mut conn, &format!("limit=9&after={}", first.rows[0].raw));
    assert_eq!((rest.rows.len(), rest.rows[0].key.as_str()), (1, "2"));
    assert_eq!(rows(&mut conn, "at=1"), first);
    assert_eq!(rows(&mut conn, "at=0").rows, []);
    for wrong in ["after=x", "after=zz", "at=-1", "limit=x"] {
        let path = format!("/admin/v1/tables/pending?{wrong}");
        ask(&mut conn, "GET", &path).is_problem(400);
    }
    let depth: Depths = read(&ask(&mut conn, "GET", "/admin/v1/depth"));
    let last = depth.points.last().unwrap();
    assert_eq!(
        (last.table.as_str(), last.rows, last.most),
        ("pending", 2, 2)
    );
    let proof: Verification = read(&ask(&mut conn, "POST", "/admin/v1/verify"));
    assert!(proof.ok, "{proof:?}");
    assert_eq!((proof.records, proof.bodies), (3, 2));
    let status: Status = read(&ask(&mut conn, "GET", "/admin/v1/status"));
    assert_eq!(status.store, Some(path.display().to_string()));
    ask(&mut conn, "GET", "/admin/v1/other").is_problem(404);
    ask(&mut conn, "GET", "/admin/v1/verify").is_problem(405);
    bus.stop();
    assert!(!file.exists());
}

#[test]
fn the_admin_endpoint_is_closed_without_its_token() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::with(|config| {
        config.admin = Some(AdminAccess {
            file: dir.path().join("admin"),
            token: token(),
        });
    });
    let closed = Bus::start();
    let mut conn = bus.connect();
    for path in ["/admin/v1/discard", "/admin/v1/evict"] {
        conn.post(path, r#"{"to":"b","entry":"k"}"#).is_problem(403);
    }
    for path in [
        "/admin/v1/records",
        "/admin/v1/status",
        "/admin/v1/queue?to=b",
        "/admin/v1/message/1?body=true",
        "/admin/v1/roster",
        "/admin/other",
    ] {
        conn.get(path).is_problem(403);
        for value in ["Bearer x", "Bearer ", "Basic x", &token(), "bearer 5a"] {
            conn.request("GET", path, &[("authorization", value)], None)
                .is_problem(403);
        }
        ask(&mut closed.connect(), "GET", path).is_problem(403);
    }
}

#[test]
fn the_operator_takes_mail_and_sessions_away() {
    let dir = tempfile::tempdir().unwrap();
    let bus = Bus::with(|config| {
        config.admin = Some(AdminAccess {
            file: dir.path().join("admin"),
            token: token(),
        });
    });
    let mut conn = bus.connect();
    for n in 0..3 {
        conn.send("a#b", json!(n));
    }
    conn.post("/announce", r#"{"pubkey":"k"}"#).is_empty(202);
    let listed: WaitingList = read(&ask(&mut conn, "GET", "/admin/v1/queue?to=a%23b"));
    let seqs: Vec<u64> = listed.messages.iter().map(|m| m.seq).collect();
    assert_eq!(seqs, [1, 2, 3]);
    assert!(listed.messages.iter().all(|m| m.body.is_none()));
    let page: WaitingList = read(&ask(
        &mut conn,
        "GET",
        "/admin/v1/queue?to=a%23b&from=2&limit=1",
    ));
    assert_eq!(page.messages, listed.messages[1..2]);
    let whole: Waiting = read(&ask(&mut conn, "GET", "/admin/v1/message/3?body=true"));
    assert_eq!(whole.body.as_deref(), Some("2"));
    ask(&mut conn, "GET", "/admin/v1/message/4").is_problem(404);
    ask(&mut conn, "GET", "/admin/v1/message/x").is_problem(400);
    ask(&mut conn, "GET", "/admin/v1/queue").is_problem(400);
    ask(&mut conn, "GET", "/admin/v1/discard").is_problem(405);

    let bearer = format!("Bearer {}", token());
    let wish = |conn: &mut Conn, path: &str, body: &str| {
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
        ];
        conn.request("POST", path, &headers, Some(body.as_bytes()))
    };
    // A position of another queue, and one that is gone, is nobody's mail.
    for (body, count) in [
        (r#"{"to":"x","seq":2}"#, 0),
        (r#"{"to":"a#b","seq":2}"#, 1),
        (r#"{"to":"a#b","seq":2}"#, 0),
        (r#"{"to":"a#b"}"#, 2),
        (r#"{"to":"a#b"}"#, 0),
    ] {
        let removed: Removed = read(&wish(&mut conn, "/admin/v1/discard", body));
        assert_eq!(removed.count, count, "{body}");
    }
    wish(&mut conn, "/admin/v1/discard", r#"{"to":1}"#).is_problem(422);
    wish(&mut conn, "/admin/v1/discard", "{").is_problem(400);
    wish(&mut conn, "/admin/v1/discard", r#"{"to":"\u0000"}"#).is_problem(400);
    let board: Board = read(&ask(&mut conn, "GET", "/admin/v1/roster"));
    assert_eq!(board.sessions[0].entry, "k");
    for count in [1, 0] {
        let removed: Removed = read(&wish(&mut conn, "/admin/v1/evict", r#"{"entry":"k"}"#));
        assert_eq!(removed.count, count);
    }
    let status: Status = read(&conn.get("/status"));
    assert_eq!((status.messages, status.roster), (0, 0));
    assert_eq!(status.drops["admin"], 3);
}

#[test]
fn status_tells_numbers_and_bounds() {
    let bus = Bus::with(|config| config.limits.messages = 9);
    let mut conn = bus.connect();
    conn.send("a", json!("12345678"));
    let status: Status = read(&conn.get("/status"));
    assert_eq!(status.version, env!("CARGO_PKG_VERSION"));
    assert_eq!((status.queues, status.messages, status.bytes), (1, 1, 10));
    assert_eq!((status.head, status.commits), (1, 1));
    assert_eq!(status.health, "read-write");
    assert_eq!(status.store, None);
    assert_eq!(status.limits.queue_messages, 9);
    assert_eq!(status.limits.overflow, "drop-oldest");
    assert_eq!(conn.get("/readyz").status, 200);
}
