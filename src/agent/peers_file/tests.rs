use super::*;
use crate::crypto::sign::SigningIdentity;
use crate::event::agent::Origin;
use crate::store::{Location, OpenOptions as StoreOptions};
use crate::system::SystemClock;
use crate::types::id::PublicKey;
use crate::types::secret::Secret;
use crate::types::time::UnixMillis;

fn key(byte: u8) -> PublicKey {
    SigningIdentity::from_seed(&Secret::new([byte; 32])).public()
}

struct Rig {
    dir: tempfile::TempDir,
    ledger: Arc<Ledger>,
    file: PeersFile,
}

impl Rig {
    async fn new() -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(SystemClock);
        let options = StoreOptions::exclusive(Location::Memory);
        let ledger = Ledger::start(options, clock.clone()).unwrap();
        let mut head = ledger.follow();
        while !ledger.is_open() {
            let _ = tokio::time::timeout(Duration::from_millis(20), head.changed()).await;
        }
        let file = PeersFile::new(dir.path().join("peers.json"), false, clock);
        Rig { dir, ledger, file }
    }

    fn write(&self, text: &str) {
        let temp = self.dir.path().join("edit");
        fs::write(&temp, text).unwrap();
        fs::rename(temp, self.file.path()).unwrap();
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file.path()).unwrap()
    }

    async fn ensure(&self) -> Result<(), PeersFileError> {
        self.file.ensure(&self.ledger).await
    }

    fn names(&self) -> Vec<(String, PublicKey)> {
        let peers = self.ledger.read_blocking(|s| Ok(query::peers(s)?)).unwrap();
        peers.into_iter().map(|p| (p.petname, p.key)).collect()
    }

    async fn add(&self, name: &str, byte: u8) -> Result<AgentReply, PeersFileError> {
        let command = AgentCommand::AddPeer {
            petname: name.into(),
            key: key(byte),
            origin: Origin::Tool,
            lease: None,
            now: UnixMillis(1),
        };
        self.file.change(&self.ledger, command).await
    }

    async fn remove(&self, name: &str) {
        let peers = self.ledger.read_blocking(|s| Ok(query::peers(s)?)).unwrap();
        let peer = peers.iter().find(|peer| peer.petname == name).unwrap();
        let command = AgentCommand::RemovePeer {
            petname: name.into(),
            key: peer.key,
            origin: Origin::Tool,
            lease: None,
            now: UnixMillis(1),
        };
        self.file.change(&self.ledger, command).await.unwrap();
    }
}

fn entry(name: &str, byte: u8) -> String {
    format!("{{\"{name}\":{{\"key\":\"{}\"}}}}", key(byte))
}

#[tokio::test]
async fn a_hand_edit_adds_and_removes_and_keeps_its_layout() {
    let rig = Rig::new().await;
    rig.write(&entry("a", 1));
    rig.ensure().await.unwrap();
    assert_eq!(rig.names(), [("a".to_owned(), key(1))]);
    assert_eq!(rig.text(), entry("a", 1));
    rig.write(&entry("b", 2));
    rig.ensure().await.unwrap();
    assert_eq!(rig.names(), [("b".to_owned(), key(2))]);
}

#[tokio::test]
async fn a_broken_text_changes_nothing_and_is_an_error_until_it_is_mended() {
    let rig = Rig::new().await;
    rig.write(&entry("a", 1));
    rig.ensure().await.unwrap();
    for broken in ["", "[]", "{", "{\"a\":{\"key\":\"x\"}}"] {
        rig.write(broken);
        for _ in 0..2 {
            let e = rig.ensure().await.unwrap_err();
            assert!(
                matches!(e, PeersFileError::Broken { .. }),
                "{broken:?}: {e}"
            );
        }
        assert!(rig.add("b", 2).await.is_err());
        assert_eq!(rig.names().len(), 1);
        assert_eq!(rig.text(), broken);
    }
    rig.write(&entry("a", 1));
    rig.ensure().await.unwrap();
}

#[tokio::test]
async fn an_older_version_does_not_bring_a_revoked_key_back() {
    let rig = Rig::new().await;
    rig.write("{}");
    rig.add("a", 1).await.unwrap();
    let old = rig.text();
    rig.remove("a").await;
    assert_eq!(rig.text(), "{}\n");
    rig.write(&old);
    rig.ensure().await.unwrap();
    assert_eq!(rig.names(), []);
    assert_eq!(rig.text(), "{}\n");
}

#[tokio::test]
async fn an_entry_that_is_struck_again_is_revoked_also_by_a_later_start() {
    for restarts in [false, true] {
        let rig = Rig::new().await;
        rig.write(&entry("bob", 1));
        rig.add("pat", 2).await.unwrap();
        let before = rig.text();
        rig.add("eve", 3).await.unwrap();
        rig.write(&before);
        if restarts {
            let path = rig.file.path().to_owned();
            let again = PeersFile::new(path, false, Arc::new(SystemClock));
            again.ensure(&rig.ledger).await.unwrap();
        } else {
            rig.ensure().await.unwrap();
        }
        assert_eq!(
            rig.names(),
            [("bob".to_owned(), key(1)), ("pat".to_owned(), key(2))]
        );
        assert_eq!(rig.text(), before);
    }
}

#[tokio::test]
async fn an_older_version_strikes_whom_it_lacks_and_admits_nobody_whom_it_has() {
    let rig = Rig::new().await;
    rig.write("{}");
    rig.add("a", 1).await.unwrap();
    let old = rig.text();
    rig.remove("a").await;
    rig.add("b", 2).await.unwrap();
    rig.write(&old);
    rig.ensure().await.unwrap();
    assert_eq!(rig.names(), []);
    assert_eq!(rig.text(), "{}\n");
}

#[tokio::test]
async fn a_crash_between_the_record_and_the_file_keeps_the_admission() {
    let rig = Rig::new().await;
    rig.write(&entry("bob", 1));
    rig.add("pat", 2).await.unwrap();
    let before = rig.text();
    rig.add("eve", 3).await.unwrap();
    // As it stood when the process died: the version is recorded and staged, the file is old.
    let next = rig.dir.path().join("peers.json.next");
    fs::rename(rig.file.path(), &next).unwrap();
    rig.write(&before);
    let again = PeersFile::new(rig.file.path().to_owned(), false, Arc::new(SystemClock));
    again.ensure(&rig.ledger).await.unwrap();
    assert_eq!(rig.names().len(), 3);
    assert_eq!(
        Peers::parse(&rig.text()).unwrap().key_of("eve"),
        Some(key(3))
    );
    assert!(!next.exists());
}

#[tokio::test]
async fn members_that_are_not_ours_survive_our_writing() {
    let rig = Rig::new().await;
    let note = format!("{{\"a\":{{\"key\":\"{}\",\"may\":{{\"x\":[1]}}}}}}", key(1));
    rig.write(&note);
    rig.add("b", 2).await.unwrap();
    let value: Value = serde_json::from_str(&rig.text()).unwrap();
    assert_eq!(value["a"]["may"]["x"][0], 1);
    assert_eq!(value["b"]["key"], key(2).to_string());
}

#[tokio::test]
async fn two_writers_lose_nothing() {
    let rig = Arc::new(Rig::new().await);
    rig.write("{}");
    let other = PeersFile::new(rig.file.path().to_owned(), false, Arc::new(SystemClock));
    let mut tasks = tokio::task::JoinSet::new();
    for byte in 1..=8 {
        let (rig, other) = (Arc::clone(&rig), other.clone());
        tasks.spawn(async move {
            let file = if byte % 2 == 0 { &rig.file } else { &other };
            let command = AgentCommand::AddPeer {
                petname: format!("p{byte}"),
                key: key(byte),
                origin: Origin::Tool,
                lease: None,
                now: UnixMillis(1),
            };
            file.change(&rig.ledger, command).await.unwrap();
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(Peers::parse(&rig.text()).unwrap().len(), 8);
    assert_eq!(rig.names().len(), 8);
}

#[tokio::test]
async fn a_file_that_lags_behind_a_crash_is_brought_up_to_the_log() {
    let rig = Rig::new().await;
    rig.write("{}");
    rig.ensure().await.unwrap();
    // The command was durable, the process died before it wrote the file.
    let command = AgentCommand::AddPeer {
        petname: "a".into(),
        key: key(1),
        origin: Origin::Tool,
        lease: None,
        now: UnixMillis(1),
    };
    rig.ledger.submit(command).await.unwrap();
    let again = PeersFile::new(rig.file.path().to_owned(), false, Arc::new(SystemClock));
    again.ensure(&rig.ledger).await.unwrap();
    assert_eq!(Peers::parse(&rig.text()).unwrap().key_of("a"), Some(key(1)));
}

#[tokio::test]
async fn a_missing_file_is_written_at_the_start_and_an_error_later() {
    let rig = Rig::new().await;
    rig.file.ensure(&rig.ledger).await.unwrap();
    assert_eq!(rig.text(), "{}\n");
    fs::remove_file(rig.file.path()).unwrap();
    let gone = rig.ensure().await.unwrap_err();
    assert!(matches!(gone, PeersFileError::Missing { .. }), "{gone:?}");
    let text = gone.to_string();
    assert!(
        text.ends_with("until it is back; a list of nobody is {}"),
        "{text}"
    );
    rig.write("{}");
    rig.ensure().await.unwrap();
}

#[tokio::test]
async fn a_second_file_is_refused_until_it_is_asked_for() {
    let rig = Rig::new().await;
    rig.write(&entry("a", 1));
    rig.ensure().await.unwrap();
    let path = rig.dir.path().join("other.json");
    fs::write(&path, entry("b", 2)).unwrap();
    let other = |switch| PeersFile::new(path.clone(), switch, Arc::new(SystemClock));
    let refused = other(false);
    for _ in 0..2 {
        let e = refused.ensure(&rig.ledger).await.unwrap_err();
        assert!(matches!(e, PeersFileError::Elsewhere { .. }), "{e:?}");
        let text = e.to_string();
        assert!(
            text.contains("peers.json") && text.contains("--adopt-peers"),
            "{text}"
        );
    }
    assert_eq!(rig.names(), [("a".to_owned(), key(1))]);
    // Another spelling of the path is the same file.
    let spelled = rig.dir.path().join("x/../peers.json");
    fs::create_dir(rig.dir.path().join("x")).unwrap();
    let same = PeersFile::new(spelled, false, Arc::new(SystemClock));
    same.ensure(&rig.ledger).await.unwrap();
    // The wish to switch counts also when a tool asks before the start is through.
    let switched = other(true);
    switched.ensure(&rig.ledger).await.unwrap();
    assert_eq!(rig.names(), [("b".to_owned(), key(2))]);
    // Who still uses the old file takes no edit of it over.
    rig.write(&entry("c", 3));
    let e = rig.ensure().await.unwrap_err();
    assert!(matches!(e, PeersFileError::Elsewhere { .. }), "{e:?}");
    assert_eq!(rig.names(), [("b".to_owned(), key(2))]);
    switched.ensure(&rig.ledger).await.unwrap();
}

/// A clock at whose next question somebody saves the file: the code asks for the time between its look
/// at the file and the end of its work.
#[derive(Default)]
struct Editor {
    save: Mutex<Option<(PathBuf, String)>>,
}

impl Clock for Editor {
    fn now(&self) -> UnixMillis {
        if let Some((path, text)) = self.save.lock().unwrap().take() {
            let temp = path.with_extension("edit");
            fs::write(&temp, text).unwrap();
            fs::rename(temp, path).unwrap();
        }
        SystemClock.now()
    }
}

fn entries(all: &[(&str, u8)]) -> String {
    let object: Map<String, Value> = all
        .iter()
        .map(|(name, byte)| {
            let entry = serde_json::json!({ "key": key(*byte).to_string() });
            ((*name).to_owned(), entry)
        })
        .collect();
    Value::Object(object).to_string()
}

#[tokio::test]
async fn what_is_saved_while_an_edit_is_taken_over_counts_as_well() {
    let editor = Arc::new(Editor::default());
    let mut rig = Rig::new().await;
    rig.file = PeersFile::new(rig.file.path().to_owned(), false, editor.clone());
    rig.write(&entries(&[("bob", 1), ("eve", 2)]));
    rig.ensure().await.unwrap();
    rig.write(&entries(&[("bob", 1), ("eve", 2), ("pat", 3)]));
    let struck = entries(&[("bob", 1), ("pat", 3)]);
    *editor.save.lock().unwrap() = Some((rig.file.path().to_owned(), struck.clone()));
    rig.ensure().await.unwrap();
    rig.ensure().await.unwrap();
    assert_eq!(
        rig.names(),
        [("bob".to_owned(), key(1)), ("pat".to_owned(), key(3))]
    );
    assert_eq!(rig.text(), struck);
}

#[tokio::test]
async fn what_is_saved_while_a_change_is_written_is_not_overwritten_and_undoes_no_admission() {
    let editor = Arc::new(Editor::default());
    let mut rig = Rig::new().await;
    rig.file = PeersFile::new(rig.file.path().to_owned(), false, editor.clone());
    rig.write(&entries(&[("bob", 1), ("eve", 2)]));
    rig.ensure().await.unwrap();
    let struck = entries(&[("bob", 1)]);
    *editor.save.lock().unwrap() = Some((rig.file.path().to_owned(), struck));
    rig.add("pat", 3).await.unwrap();
    rig.ensure().await.unwrap();
    assert_eq!(
        rig.names(),
        [("bob".to_owned(), key(1)), ("pat".to_owned(), key(3))]
    );
    let text = rig.text();
    assert_eq!(Peers::parse(&text).unwrap().len(), 2, "{text}");
    assert!(!rig.dir.path().join("peers.json.next").exists());
}

#[tokio::test]
async fn what_breaks_the_file_while_a_change_is_written_is_an_error_until_it_is_mended() {
    let editor = Arc::new(Editor::default());
    let mut rig = Rig::new().await;
    rig.file = PeersFile::new(rig.file.path().to_owned(), false, editor.clone());
    rig.write(&entries(&[("bob", 1)]));
    rig.ensure().await.unwrap();
    *editor.save.lock().unwrap() = Some((rig.file.path().to_owned(), "{".into()));
    let told = rig.add("pat", 3).await.unwrap_err();
    assert!(matches!(told, PeersFileError::Behind(_)), "{told}");
    for _ in 0..2 {
        let broken = rig.ensure().await.unwrap_err();
        assert!(matches!(broken, PeersFileError::Broken { .. }), "{broken}");
    }
    assert_eq!(rig.text(), "{");
    assert_eq!(rig.names().len(), 2);
}
