use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::*;

fn rules(root: &Path) -> OutgoingRules {
    OutgoingRules {
        roots: vec![root.to_owned()],
        max_bytes: 1024,
        types: Types::Listed,
    }
}

fn send(root: &Path, path: &str) -> Result<Outgoing, OutgoingError> {
    open_outgoing(Path::new(path), &rules(root))
}

/// A project with a file, without links in its own path.
fn project() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(dir.path()).unwrap().join("project");
    fs::create_dir_all(root.join("src")).unwrap();
    fs::write(root.join("src/a.md"), b"hello\r\nworld\xef\xbb\xbf").unwrap();
    (dir, root)
}

fn name(text: &str) -> BaseName {
    BaseName::incoming(text, Types::Listed).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn entries(dir: &Path) -> Vec<String> {
    let mut all: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    all.sort();
    all
}

#[test]
fn a_file_is_read_exactly_by_every_spelling_of_its_path() {
    let (_dir, root) = project();
    let whole = root.join("src/a.md");
    for path in ["src/a.md", "./src/../src/a.md", whole.to_str().unwrap()] {
        let got = send(&root, path).unwrap();
        assert_eq!(got.content, b"hello\r\nworld\xef\xbb\xbf", "{path}");
        assert_eq!(got.name.as_str(), "a.md");
        assert_eq!(got.sha256, sha256(&got.content));
    }
    assert!(!format!("{:?}", send(&root, "src/a.md").unwrap()).contains("104"));
}

#[test]
fn a_root_may_be_reached_through_a_link_of_its_own() {
    let (dir, root) = project();
    let alias = dir.path().join("alias");
    symlink(&root, &alias).unwrap();
    assert!(open_outgoing(&alias.join("src/a.md"), &rules(&alias)).is_ok());
    assert!(send(&alias, root.join("src/a.md").to_str().unwrap()).is_ok());
}

#[test]
fn links_are_refused_on_every_component() {
    let (_dir, root) = project();
    symlink(root.join("src/a.md"), root.join("b.md")).unwrap();
    symlink(root.join("src"), root.join("lib")).unwrap();
    symlink("/nowhere", root.join("dangling.md")).unwrap();
    symlink("/etc", root.join("src/etc")).unwrap();
    for path in ["b.md", "lib/a.md", "dangling.md", "src/etc/x.json"] {
        let e = send(&root, path).unwrap_err();
        assert!(matches!(e, OutgoingError::Link { .. }), "{path}: {e}");
        // What a kernel without the one call does.
        let walked = system::walk(&root.join(path)).unwrap_err();
        assert_eq!(walked, rustix::io::Errno::LOOP, "{path}");
    }
    assert!(system::walk(&root.join("src/a.md")).is_ok());
}

#[test]
fn a_component_that_turns_into_a_link_meanwhile_is_refused() {
    let (dir, root) = project();
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("a.md"), "of somebody else").unwrap();
    let turning = root.join("turning");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = fs::create_dir(&turning);
                let _ = fs::write(turning.join("a.md"), "ours");
                let _ = fs::remove_dir_all(&turning);
                let _ = symlink(&outside, &turning);
                let _ = fs::remove_file(&turning);
            }
        });
        let mut read = 0;
        let end = Instant::now() + Duration::from_millis(600);
        while Instant::now() < end {
            if let Ok(got) = send(&root, "turning/a.md") {
                assert_ne!(got.content, b"of somebody else");
                read += 1;
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        eprintln!("{read} reads between the swaps");
    });
}

#[test]
fn nothing_outside_the_roots_is_read() {
    let (dir, root) = project();
    fs::write(dir.path().join("x.md"), "x").unwrap();
    for path in ["../x.md", "/etc/hostname.md", "src/../../x.md"] {
        let e = send(&root, path).unwrap_err();
        assert!(matches!(e, OutgoingError::Outside { .. }), "{path}: {e}");
        assert!(e.to_string().contains("--bond-root"));
    }
    // A sibling with the root's name as its beginning.
    let beside = dir.path().join("project-b");
    fs::create_dir(&beside).unwrap();
    fs::write(beside.join("x.md"), "x").unwrap();
    let e = send(&root, beside.join("x.md").to_str().unwrap()).unwrap_err();
    assert!(matches!(e, OutgoingError::Outside { .. }));
    // A second root makes it possible.
    let mut two = rules(&root);
    two.roots.push(beside.clone());
    assert!(open_outgoing(&beside.join("x.md"), &two).is_ok());
    two.roots.clear();
    let e = open_outgoing(&beside.join("x.md"), &two).unwrap_err();
    assert!(matches!(e, OutgoingError::NoRoots));
}

#[test]
fn only_regular_files_are_read_and_a_pipe_holds_nobody_up() {
    let (_dir, root) = project();
    let pipe = root.join("pipe.md");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let _socket = std::os::unix::net::UnixListener::bind(root.join("s.md")).unwrap();
    fs::create_dir(root.join("dir.md")).unwrap();
    for path in ["pipe.md", "s.md", "dir.md", "src", "."] {
        let e = send(&root, path).unwrap_err();
        assert!(matches!(e, OutgoingError::NotAFile { .. }), "{path}: {e:?}");
    }
    for path in ["none.md", "src/a.md/b.md", "none/a.md"] {
        let e = send(&root, path).unwrap_err();
        assert!(matches!(e, OutgoingError::Missing { .. }), "{path}: {e:?}");
    }
}

#[test]
fn the_size_is_bounded_inclusively() {
    let (_dir, root) = project();
    fs::write(root.join("fits.txt"), vec![b'x'; 1024]).unwrap();
    fs::write(root.join("large.txt"), vec![b'x'; 1025]).unwrap();
    fs::write(root.join("empty.txt"), b"").unwrap();
    assert_eq!(send(&root, "fits.txt").unwrap().content.len(), 1024);
    assert_eq!(send(&root, "empty.txt").unwrap().content.len(), 0);
    let e = send(&root, "large.txt").unwrap_err();
    assert!(matches!(
        e,
        OutgoingError::TooLarge {
            size: 1025,
            max: 1024
        }
    ));
}

#[test]
fn what_is_not_utf8_is_refused_where_only_text_travels() {
    let (_dir, root) = project();
    fs::write(root.join("latin.txt"), b"caf\xe9").unwrap();
    let e = send(&root, "latin.txt").unwrap_err();
    assert!(matches!(e, OutgoingError::NotUtf8 { at: 3 }));
    let mut any = rules(&root);
    any.types = Types::Any;
    let got = open_outgoing(Path::new("latin.txt"), &any).unwrap();
    assert_eq!(got.content, b"caf\xe9");
}

#[test]
fn names_directories_and_contents_that_promise_secrets_are_kept_back() {
    let (_dir, root) = project();
    for folder in [".ssh", "deploy/secrets", ".git", "src/.aws"] {
        fs::create_dir_all(root.join(folder)).unwrap();
        fs::write(root.join(folder).join("config.txt"), "x").unwrap();
        let e = send(&root, &format!("{folder}/config.txt")).unwrap_err();
        assert!(
            matches!(e, OutgoingError::ClosedDirectory { .. }),
            "{folder}: {e}"
        );
    }
    // The root itself inside such a directory.
    let inside = root.join(".ssh");
    let e = send(&inside, "config.txt").unwrap_err();
    assert!(matches!(e, OutgoingError::ClosedDirectory { .. }));

    for file in [".env", "password.txt", "run.sh", "tokenizer.py"] {
        fs::write(root.join(file), "x").unwrap();
        let e = send(&root, file).unwrap_err();
        assert!(matches!(e, OutgoingError::Name(_)), "{file}: {e}");
    }
    let token = format!("ghp_{}", "aB3dE6gH9j".repeat(4));
    fs::write(root.join("notes.md"), format!("one\n{token}\n")).unwrap();
    let e = send(&root, "notes.md").unwrap_err();
    let text = e.to_string();
    assert!(text.contains("github-token in line 2"), "{text}");
    assert!(!text.contains("aB3dE6gH9j"));
}

#[test]
fn the_directory_is_made_for_its_owner_only_and_tightened() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state/incoming");
    Incoming::open(&path).unwrap();
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o700, 0o700));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    Incoming::open(&path).unwrap();
    assert_eq!(mode(&path), 0o700);
}

#[test]
fn accepted_files_are_whole_private_and_never_overwrite() {
    let dir = tempfile::tempdir().unwrap();
    let incoming = Incoming::open(&dir.path().join("incoming")).unwrap();
    let first = incoming.place(&name("a.md"), b"one\xff").unwrap();
    let second = incoming.place(&name("a.md"), b"two").unwrap();
    let third = incoming.place(&name("a.md"), b"").unwrap();
    let names: Vec<&str> = [&first, &second, &third].map(|p| p.name.as_str()).to_vec();
    assert_eq!(names, ["a.md", "a-2.md", "a-3.md"]);
    assert_eq!(fs::read(&first.path).unwrap(), b"one\xff");
    assert_eq!(fs::read(&second.path).unwrap(), b"two");
    assert_eq!(fs::read(&third.path).unwrap(), b"");
    assert_eq!(mode(&first.path), 0o600);
    assert!(first.path.is_absolute() && first.path.parent() == second.path.parent());
    assert_eq!(entries(first.path.parent().unwrap()).len(), 3);
}

#[test]
fn whatever_has_the_name_stays_and_no_link_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("incoming");
    let incoming = Incoming::open(&path).unwrap();
    let target = dir.path().join("target.md");
    symlink(&target, path.join("a.md")).unwrap();
    symlink("/nowhere/at/all", path.join("b.md")).unwrap();
    fs::create_dir(path.join("c.md")).unwrap();
    for file in ["a.md", "b.md", "c.md"] {
        let placed = incoming.place(&name(file), b"x").unwrap();
        assert_eq!(placed.name, file.replace(".md", "-2.md"));
        assert!(fs::symlink_metadata(&placed.path).unwrap().is_file());
    }
    assert!(!target.exists());
    assert!(
        fs::symlink_metadata(path.join("b.md"))
            .unwrap()
            .is_symlink()
    );
}

#[test]
fn a_link_or_a_file_in_place_of_the_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    for (at, make) in [("link", true), ("file", false)] {
        let path = dir.path().join(at);
        if make {
            symlink(&elsewhere, &path).unwrap();
        } else {
            fs::write(&path, "x").unwrap();
        }
        let e = Incoming::open(&path).unwrap_err();
        assert!(matches!(e, IncomingError::NotADirectory { .. }), "{e}");
    }
    assert!(entries(&elsewhere).is_empty());
}

#[test]
fn a_replaced_directory_gets_nothing_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let (path, moved) = (dir.path().join("incoming"), dir.path().join("moved"));
    let elsewhere = dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let incoming = Incoming::open(&path).unwrap();
    fs::rename(&path, &moved).unwrap();
    symlink(&elsewhere, &path).unwrap();
    let e = incoming.place(&name("a.md"), b"x").unwrap_err();
    assert!(matches!(e, IncomingError::Replaced { .. }), "{e}");

    // In the middle of it: nothing stays, here or there.
    fs::remove_file(&path).unwrap();
    fs::rename(&moved, &path).unwrap();
    let staged = incoming
        .0
        .stage(".incoming-0000000000000000.part", b"x")
        .unwrap();
    fs::rename(&path, &moved).unwrap();
    fs::create_dir(&path).unwrap();
    let e = incoming.0.publish(&staged, "a.md").unwrap_err();
    assert!(matches!(e, IncomingError::Replaced { .. }), "{e}");
    drop(staged);
    for folder in [&path, &moved, &elsewhere] {
        assert!(entries(folder).is_empty(), "{folder:?}");
    }
}

#[test]
fn a_failed_write_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("incoming");
    let incoming = Incoming::open(&path).unwrap();
    for n in 1..=MAX_SAME_NAME {
        fs::write(path.join(&*name("a.md").numbered(n)), "").unwrap();
    }
    let e = incoming.place(&name("a.md"), b"x").unwrap_err();
    assert!(matches!(e, IncomingError::Full { .. }), "{e}");
    assert!(entries(&path).iter().all(|entry| !entry.starts_with('.')));
}

#[test]
fn where_there_is_no_exclusive_rename_a_link_does_it() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("from"), "x").unwrap();
    fs::write(dir.path().join("taken"), "y").unwrap();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let at = openat(CWD, dir.path(), flags, Mode::empty()).unwrap();
    let taken = system::link(&at, "from", "taken").unwrap_err();
    assert_eq!(taken, rustix::io::Errno::EXIST);
    system::link(&at, "from", "to").unwrap();
    assert_eq!(entries(dir.path()), ["taken", "to"]);
}

#[test]
fn two_that_place_the_same_name_at_once_get_two_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("incoming");
    std::thread::scope(|scope| {
        for who in 0..4u8 {
            let path = &path;
            scope.spawn(move || {
                for _ in 0..10 {
                    let incoming = Incoming::open(path).unwrap();
                    let placed = incoming.place(&name("a.md"), &[b'0' + who; 100]).unwrap();
                    assert_eq!(fs::read(placed.path).unwrap(), [b'0' + who; 100]);
                }
            });
        }
    });
    assert_eq!(entries(&path).len(), 40);
}

/// Where the process that is to be killed finds its directory.
const VICTIM: &str = "INTERLINK_TEST_INCOMING_VICTIM";

/// Not a test: what the next one kills. Writes for ever, so that a signal comes in the middle.
#[test]
#[ignore = "the other half of a test"]
fn victim() {
    let Some(path) = std::env::var_os(VICTIM) else {
        return;
    };
    let incoming = Incoming::open(Path::new(&path)).unwrap();
    let bytes = vec![b'v'; 4 * 1024 * 1024];
    for _ in 0..10_000 {
        let placed = incoming.place(&name("a.md"), &bytes).unwrap();
        fs::remove_file(placed.path).unwrap();
    }
}

#[test]
fn a_killed_process_leaves_no_part_under_a_name_and_the_next_one_cleans_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("incoming");
    let mut interrupted = 0;
    for _ in 0..6 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "agent::bond::files::tests::victim"])
            .env(VICTIM, &path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let is_part = |entry: &String| entry.starts_with(".incoming-");
        while !(path.is_dir() && entries(&path).iter().any(is_part)) {
            assert!(Instant::now() < deadline, "nothing is written");
            assert!(child.try_wait().unwrap().is_none(), "it ended");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let left = entries(&path);
        interrupted += left.iter().filter(|entry| is_part(entry)).count();
        for entry in left.iter().filter(|entry| !is_part(entry)) {
            let whole = fs::metadata(path.join(entry)).unwrap().len();
            assert_eq!(whole, 4 * 1024 * 1024, "{entry}");
            fs::remove_file(path.join(entry)).unwrap();
        }
        Incoming::open(&path).unwrap();
        assert_eq!(entries(&path), [] as [String; 0]);
    }
    assert!(interrupted > 0, "no signal came in the middle");
}

#[test]
fn a_start_cleans_up_and_makes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("incoming");
    Incoming::tidy(&path);
    assert!(!path.exists());
    fs::create_dir(&path).unwrap();
    fs::write(path.join(".incoming-ffffffffffffffff.part"), "left").unwrap();
    Incoming::tidy(&path);
    assert!(entries(&path).is_empty());
}

#[test]
fn a_sweep_leaves_what_is_being_written_and_what_is_not_ours() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("incoming");
    let incoming = Incoming::open(&path).unwrap();
    let staged = incoming
        .0
        .stage(".incoming-00112233aabbccdd.part", b"x")
        .unwrap();
    fs::write(path.join(".incoming-ffffffffffffffff.part"), "left").unwrap();
    fs::write(path.join(".incoming-short.part"), "other").unwrap();
    symlink("/nowhere", path.join(".incoming-eeeeeeeeeeeeeeee.part")).unwrap();
    Incoming::open(&path).unwrap();
    assert_eq!(
        entries(&path),
        [
            ".incoming-00112233aabbccdd.part",
            ".incoming-eeeeeeeeeeeeeeee.part",
            ".incoming-short.part"
        ]
    );
    assert!(incoming.0.publish(&staged, "a.md").unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_name_leads_out_of_the_directory(
        raw in "[./\\\\a-c\u{e9}\u{0}\n: -]{0,12}(\\.md|\\.txt)?|(\\.\\./){1,4}[a-z]{1,4}\\.md|(?s).{0,20}"
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("incoming");
        let incoming = Incoming::open(&path).unwrap();
        if let Ok(name) = BaseName::incoming(&raw, Types::Any) {
            let placed = incoming.place(&name, raw.as_bytes()).unwrap();
            prop_assert_eq!(placed.path.parent().unwrap(), fs::canonicalize(&path).unwrap());
            prop_assert_eq!(fs::read(&placed.path).unwrap(), raw.as_bytes());
            prop_assert_eq!(entries(&path), [placed.name]);
        }
        prop_assert_eq!(entries(dir.path()), ["incoming"]);
    }

    #[test]
    fn no_path_leads_out_of_the_root(path in "(/|\\./|\\.\\./|[ab]/|link/){0,5}[a-c]\\.(md|txt)") {
        let (dir, root) = project();
        symlink("/", root.join("link")).unwrap();
        fs::create_dir(root.join("a")).unwrap();
        for at in [root.join("a.md"), root.join("a/b.md")] {
            fs::write(at, "inside").unwrap();
        }
        for at in [dir.path().join("a.md"), dir.path().join("b.md")] {
            fs::write(at, "outside").unwrap();
        }
        if let Ok(got) = send(&root, &path) {
            prop_assert_eq!(got.content, b"inside");
        }
    }
}

#[test]
fn a_file_that_comes_in_pieces_has_its_name_when_it_is_whole() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("incoming");
    let incoming = Arc::new(Incoming::open(&path).unwrap());
    fs::write(path.join("a.md"), "taken").unwrap();
    let mut arriving = Arriving::begin(&incoming).unwrap();
    for piece in ["one ", "two ", "three"] {
        arriving.append(piece.as_bytes()).unwrap();
        // A sweep of another process leaves it alone.
        Incoming::tidy(&path);
    }
    let [hidden, other] = &entries(&path)[..] else {
        panic!("two files");
    };
    assert!(
        hidden.starts_with('.') && other == "a.md",
        "{hidden} {other}"
    );
    let placed = arriving.finish(&name("a.md")).unwrap();
    assert_eq!(placed.name, "a-2.md");
    assert_eq!(fs::read(&placed.path).unwrap(), b"one two three");
    assert_eq!(mode(&placed.path), 0o600);
    assert_eq!(entries(&path), ["a-2.md", "a.md"]);
    // An empty one.
    let placed = Arriving::begin(&incoming).unwrap().finish(&name("b.md"));
    assert_eq!(fs::read(placed.unwrap().path).unwrap(), b"");
}

#[test]
fn a_file_that_stops_coming_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("incoming");
    let incoming = Arc::new(Incoming::open(&path).unwrap());
    let mut arriving = Arriving::begin(&incoming).unwrap();
    arriving.append(b"half").unwrap();
    drop(arriving);
    assert!(entries(&path).is_empty());
    // The directory was swapped in the meantime: nothing is left there or here.
    let mut arriving = Arriving::begin(&incoming).unwrap();
    arriving.append(b"half").unwrap();
    let moved = home.path().join("moved");
    fs::rename(&path, &moved).unwrap();
    fs::create_dir(&path).unwrap();
    let e = arriving.finish(&name("a.md")).unwrap_err();
    assert!(matches!(e, IncomingError::Replaced { .. }), "{e}");
    assert!(entries(&moved).is_empty() && entries(&path).is_empty());
}

fn held(root: &Path, path: &str) -> Result<Held, OutgoingError> {
    let any = OutgoingRules {
        types: Types::Any,
        ..rules(root)
    };
    hold(Path::new(path), &any, 10)
}

#[test]
fn a_held_file_is_read_in_pieces_of_what_was_hashed() {
    let (_dir, root) = project();
    let content: Vec<u8> = (0..=255).cycle().take(25).collect();
    fs::write(root.join("a.bin"), &content).unwrap();
    let file = held(&root, "a.bin").unwrap();
    assert_eq!((file.name().as_str(), file.size()), ("a.bin", 25));
    assert_eq!(file.sha256(), sha256(&content));
    // It need not have its name any more.
    fs::remove_file(root.join("a.bin")).unwrap();
    let pieces: Vec<Vec<u8>> = [0, 10, 20].map(|at| file.piece(at).unwrap()).into();
    assert_eq!(pieces.concat(), content);
    for beyond in [30, u64::MAX] {
        assert!(file.piece(beyond).is_err(), "{beyond}");
    }
    fs::write(root.join("empty.bin"), b"").unwrap();
    let empty = held(&root, "empty.bin").unwrap();
    assert_eq!((empty.size(), empty.sha256()), (0, sha256(b"")));
}

#[test]
fn no_piece_of_a_held_file_that_changed_is_handed_out() {
    let (_dir, root) = project();
    let path = root.join("a.bin");
    let change = |content: &[u8]| {
        fs::write(&path, [b'a'; 25]).unwrap();
        let file = held(&root, "a.bin").unwrap();
        fs::write(&path, content).unwrap();
        [0, 10, 20].map(|at| match file.piece(at) {
            Ok(_) => "same",
            Err(OutgoingError::Changing) => "changed",
            Err(_) => "other",
        })
    };
    assert_eq!(change(&[b'a'; 25]), ["same"; 3]);
    assert_eq!(
        change(b"aaaaaaaaaaBaaaaaaaaaaaaaa"),
        ["same", "changed", "same"]
    );
    assert_eq!(change(&[b'a'; 24]), ["same", "same", "changed"]);
    assert_eq!(change(b""), ["changed"; 3]);
    // What was added after it was looked at is not sent.
    assert_eq!(change(&[b'a'; 99]), ["same"; 3]);
}

#[test]
fn what_is_held_keeps_the_rules_of_what_is_sent() {
    let (_dir, root) = project();
    let write = |name: &str, content: &[u8]| fs::write(root.join(name), content).unwrap();
    write("large.bin", &[0; 1025]);
    write("full.bin", &[0; 1024]);
    write("x.exe", b"x");
    write(
        "words.txt",
        format!("ghp_{}", "q7Zk2Xv9Lm4Tb8Wc1Rj6Yp3Hs5Dn0GfAeUi1").as_bytes(),
    );
    symlink("full.bin", root.join("link.bin")).unwrap();
    let e = held(&root, "large.bin").unwrap_err();
    assert!(
        matches!(e, OutgoingError::TooLarge { size: 1025, .. }),
        "{e}"
    );
    assert!(held(&root, "full.bin").is_ok());
    let e = held(&root, "x.exe").unwrap_err();
    assert!(matches!(e, OutgoingError::Name(_)), "{e}");
    // It lies across pieces.
    let e = held(&root, "words.txt").unwrap_err();
    assert!(matches!(e, OutgoingError::Secrets { .. }), "{e}");
    let e = held(&root, "link.bin").unwrap_err();
    assert!(matches!(e, OutgoingError::Link { .. }), "{e}");
    let e = held(&root, "src").unwrap_err();
    assert!(matches!(e, OutgoingError::NotAFile { .. }), "{e}");
    let e = held(&root, "../x.bin").unwrap_err();
    assert!(matches!(e, OutgoingError::Outside { .. }), "{e}");
}
