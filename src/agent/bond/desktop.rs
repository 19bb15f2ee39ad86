//! A word on the desktop, for the human who does not look at the terminal.
//!
//! Texts are fixed templates of ours. Of a peer they hold eight hexadecimal digits at most, and a
//! file's name reduced to letters, digits and four marks: nothing that a shell, a markup or a script
//! could read as its own, and never the words of a message. No shell is involved; on Windows the text
//! travels in the environment, not on the command line.
//!
//! Notices are a courtesy. A program that is missing, fails or hangs changes nothing; nobody waits for
//! it, its output goes nowhere. Each kind has a pace, so that a noisy peer cannot bury the screen.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::domain::bond::wrap::prefix;
use crate::types::time::UnixMillis;
use crate::wire::bond::packet::size_text;

/// Any of these, set to off, false, 0 or no, silences everything.
pub const SWITCHES: [&str; 2] = ["INTERLINK_NOTIFICATIONS", "COVALENT_NOTIFICATIONS"];
/// Characters of a file's name.
const NAME_CHARS: usize = 40;
/// Characters of a size.
const SIZE_CHARS: usize = 16;
/// Longest life of a program that shows a notice.
const LIMIT: Duration = Duration::from_secs(10);
/// Programs at a time.
const MAX_RUNNING: usize = 4;

/// What there is to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// The sealed session is confirmed.
    Confirmed,
    /// A file waits for a decision.
    File {
        /// How the relay calls the sender.
        from: &'a str,
        /// The peer's name of the file.
        name: &'a str,
        /// Its bytes.
        size: u64,
    },
    /// A message arrived in the session.
    Message {
        /// How the relay calls the sender.
        from: &'a str,
    },
    /// The peer left the session.
    PeerGone {
        /// How the relay calls it.
        from: &'a str,
    },
    /// Ordinary mail waits.
    Mail {
        /// How many messages.
        waiting: u64,
    },
}

impl Notice<'_> {
    const KINDS: usize = 5;

    const fn index(&self) -> usize {
        match self {
            Notice::Confirmed => 0,
            Notice::File { .. } => 1,
            Notice::Message { .. } => 2,
            Notice::PeerGone { .. } => 3,
            Notice::Mail { .. } => 4,
        }
    }

    /// Milliseconds between two of the kind.
    const fn pace_ms(&self) -> u64 {
        match self {
            Notice::Confirmed | Notice::File { .. } | Notice::PeerGone { .. } => 2_000,
            Notice::Message { .. } => 10_000,
            Notice::Mail { .. } => 30_000,
        }
    }
}

/// The texts of a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// The same for each kind.
    pub title: &'static str,
    /// One line without any of `" $ ; \ < >`, backticks or line feeds.
    pub body: String,
}

/// The texts of a notice.
#[must_use]
pub fn words(notice: &Notice<'_>) -> Words {
    let peer = |from: &str| prefix(from).map_or_else(|| "peer".to_owned(), |p| format!("peer {p}"));
    let (title, body) = match notice {
        Notice::Confirmed => (
            "Sealed session",
            "The session is confirmed: both sides know the code.".to_owned(),
        ),
        Notice::File { from, name, size } => {
            let size = size_text(usize::try_from(*size).unwrap_or(usize::MAX));
            let size: String = size.chars().take(SIZE_CHARS).collect();
            (
                "Sealed session: a file waits",
                format!("From {}: {} ({size})", peer(from), reduced(name)),
            )
        }
        Notice::Message { from } => ("Sealed session", format!("A message from {}.", peer(from))),
        Notice::PeerGone { from } => (
            "Sealed session",
            format!("The other side left: {}.", peer(from)),
        ),
        Notice::Mail { waiting: 1 } => ("Interlink", "1 message waits.".to_owned()),
        Notice::Mail { waiting } => ("Interlink", format!("{waiting} messages wait.")),
    };
    Words { title, body }
}

/// A name of which nothing is left but harmless characters.
fn reduced(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ' ' | '-');
    name.chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .take(NAME_CHARS)
        .collect()
}

/// How a system shows notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// `notify-send`, where it is installed.
    Linux,
    /// `osascript`.
    MacOs,
    /// A toast by PowerShell.
    Windows,
    /// Not at all.
    Other,
}

impl Platform {
    /// This one.
    #[must_use]
    pub const fn here() -> Platform {
        if cfg!(target_os = "linux") {
            Platform::Linux
        } else if cfg!(target_os = "macos") {
            Platform::MacOs
        } else if cfg!(windows) {
            Platform::Windows
        } else {
            Platform::Other
        }
    }

    /// The program, by a full path: a name would be looked for in the current directory on some
    /// systems.
    fn program(self) -> Option<PathBuf> {
        match self {
            Platform::Linux => std::env::split_paths(&std::env::var_os("PATH")?)
                .filter(|folder| folder.is_absolute())
                .map(|folder| folder.join("notify-send"))
                .find(|program| program.is_file()),
            Platform::MacOs => Some(PathBuf::from("/usr/bin/osascript")),
            Platform::Windows => {
                let root = PathBuf::from(std::env::var_os("SystemRoot")?);
                Some(root.join("System32/WindowsPowerShell/v1.0/powershell.exe"))
            }
            Platform::Other => None,
        }
    }
}

/// What is run: arguments and additional variables.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Call {
    args: Vec<String>,
    env: Vec<(&'static str, String)>,
}

const APPLE_SCRIPT: [&str; 3] = [
    "on run argv",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "end run",
];

/// The texts become text nodes, so nothing in them is markup.
const TOAST_SCRIPT: &str = "$ErrorActionPreference='SilentlyContinue';\
[void][Windows.UI.Notifications.ToastNotificationManager,Windows.UI.Notifications,ContentType=WindowsRuntime];\
$x=[Windows.UI.Notifications.ToastNotificationManager]::GetTemplateContent(\
[Windows.UI.Notifications.ToastTemplateType]::ToastText02);\
$t=$x.GetElementsByTagName('text');\
[void]$t.Item(0).AppendChild($x.CreateTextNode($env:INTERLINK_NOTICE_TITLE));\
[void]$t.Item(1).AppendChild($x.CreateTextNode($env:INTERLINK_NOTICE_BODY));\
$n=[Windows.UI.Notifications.ToastNotification]::new($x);\
[Windows.UI.Notifications.ToastNotificationManager]::CreateToastNotifier(\
'{1AC14E77-02E7-4E5D-B744-2EB1AE5198B7}\\WindowsPowerShell\\v1.0\\powershell.exe').Show($n)";

fn call(platform: Platform, words: &Words) -> Option<Call> {
    let owned = |args: &[&str]| args.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>();
    let (args, env) = match platform {
        Platform::Linux => (
            owned(&["--app-name=interlink", "--", words.title, &words.body]),
            Vec::new(),
        ),
        Platform::MacOs => {
            let mut args = Vec::new();
            for line in APPLE_SCRIPT {
                args.extend(owned(&["-e", line]));
            }
            args.extend(owned(&["--", words.title, &words.body]));
            (args, Vec::new())
        }
        Platform::Windows => (
            owned(&["-NoProfile", "-NonInteractive", "-Command", TOAST_SCRIPT]),
            vec![
                ("INTERLINK_NOTICE_TITLE", words.title.to_owned()),
                ("INTERLINK_NOTICE_BODY", words.body.clone()),
            ],
        ),
        Platform::Other => return None,
    };
    Some(Call { args, env })
}

/// Whether a switch's value means off: off, false, 0, no, in any case.
#[must_use]
pub fn is_off(value: &str) -> bool {
    ["off", "false", "0", "no"]
        .iter()
        .any(|off| value.trim().eq_ignore_ascii_case(off))
}

/// Variables that a program on the desktop needs. No others are passed on: ours may hold secrets.
const PASSED: [&str; 14] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "XDG_CURRENT_DESKTOP",
    "XDG_SESSION_TYPE",
    "DBUS_SESSION_BUS_ADDRESS",
    "TMPDIR",
];

type Look = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Shows notices.
pub struct Desktop {
    platform: Platform,
    program: Option<PathBuf>,
    switch: Box<Look>,
    last: Mutex<[Option<UnixMillis>; Notice::KINDS]>,
    running: Arc<AtomicUsize>,
}

impl std::fmt::Debug for Desktop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desktop")
            .field("platform", &self.platform)
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

impl Default for Desktop {
    fn default() -> Self {
        Desktop::here()
    }
}

impl Desktop {
    /// This machine's, switched by this process's environment, which is read at each notice.
    #[must_use]
    pub fn here() -> Desktop {
        let platform = Platform::here();
        Desktop::with(platform, platform.program(), |name| {
            std::env::var(name).ok()
        })
    }

    /// Another program, and another environment to look the [`SWITCHES`] up in.
    #[must_use]
    pub fn with(
        platform: Platform,
        program: Option<PathBuf>,
        switch: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Desktop {
        Desktop {
            platform,
            program,
            switch: Box::new(switch),
            last: Mutex::new([None; Notice::KINDS]),
            running: Arc::default(),
        }
    }

    /// Shows a notice, unless notices are off, there is no way to, or one of its kind was shown just
    /// before. Returns at once; whether a program was started. Needs a tokio runtime.
    pub fn tell(&self, now: UnixMillis, notice: &Notice<'_>) -> bool {
        if SWITCHES
            .iter()
            .any(|name| (self.switch)(name).is_some_and(|value| is_off(&value)))
        {
            return false;
        }
        let (Some(program), Some(call)) = (&self.program, call(self.platform, &words(notice)))
        else {
            return false;
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return false;
        };
        let Some(place) = Place::take(&self.running) else {
            return false;
        };
        if !self.is_due(now, notice) {
            return false;
        }
        let _inside = runtime.enter();
        match start(program, &call) {
            Ok(child) => {
                runtime.spawn(attend(child, place));
                true
            }
            Err(e) => {
                tracing::debug!("{}: {e}", program.display());
                false
            }
        }
    }

    fn is_due(&self, now: UnixMillis, notice: &Notice<'_>) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(last) = last.get_mut(notice.index()) else {
            return false;
        };
        // A clock that went back does not silence anything.
        let due = last.is_none_or(|last| now < last || now.since(last) >= notice.pace_ms());
        if due {
            *last = Some(now);
        }
        due
    }
}

fn start(program: &Path, call: &Call) -> std::io::Result<tokio::process::Child> {
    let mut command = tokio::process::Command::new(program);
    #[cfg(unix)]
    {
        command.env_clear();
        for name in PASSED {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        // Not a part of the terminal's foreground: Ctrl-C is not meant for it.
        command.process_group(0);
    }
    #[cfg(not(unix))]
    let _ = PASSED;
    command
        .args(&call.args)
        .envs(call.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// Waits for the program, so that nothing of it stays behind; ends one that hangs.
async fn attend(mut child: tokio::process::Child, _place: Place) {
    if tokio::time::timeout(LIMIT, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

/// One of the programs at a time.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(running: &Arc<AtomicUsize>) -> Option<Place> {
        let taken = running.fetch_add(1, Ordering::AcqRel);
        let place = Place(Arc::clone(running));
        (taken < MAX_RUNNING).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Instant;

    use super::*;

    const FROM: &str = "0123abcdffff";

    fn all(from: &'static str, name: &'static str) -> [Notice<'static>; 5] {
        [
            Notice::Confirmed,
            Notice::File {
                from,
                name,
                size: 1536,
            },
            Notice::Message { from },
            Notice::PeerGone { from },
            Notice::Mail { waiting: 3 },
        ]
    }

    #[test]
    fn texts_are_templates_with_eight_digits_and_a_reduced_name() {
        let texts = all(FROM, "notes.md").map(|notice| words(&notice).body);
        assert_eq!(
            texts,
            [
                "The session is confirmed: both sides know the code.",
                "From peer 0123abcd: notes.md (1.5 KB)",
                "A message from peer 0123abcd.",
                "The other side left: peer 0123abcd.",
                "3 messages wait.",
            ]
        );
        assert_eq!(words(&Notice::Mail { waiting: 1 }).body, "1 message waits.");
    }

    #[test]
    fn nothing_of_a_hostile_name_or_sender_acts() {
        let name = "a\"$(x);`y`\\<b>&\n'\u{202e}%{}|~.md";
        for notice in all("\"; rm -rf ~ #", name) {
            let words = words(&notice);
            for c in [
                '"', '$', ';', '\\', '<', '>', '`', '\n', '&', '\'', '%', '\u{202e}',
            ] {
                assert!(
                    !words.body.contains(c) && !words.title.contains(c),
                    "{words:?}"
                );
            }
            assert!(!words.body.contains("-rf"), "{words:?}");
        }
        let file = |name| {
            words(&Notice::File {
                from: "XYZ",
                name,
                size: u64::MAX,
            })
            .body
        };
        assert!(file("x").starts_with("From peer: x ("));
        let long: &str = &"n".repeat(500);
        assert!(file(long).len() < 100);
    }

    #[test]
    fn each_system_has_its_call_and_unknown_ones_none() {
        let words = words(&Notice::Message { from: FROM });
        let linux = call(Platform::Linux, &words).unwrap();
        assert_eq!(
            linux.args,
            [
                "--app-name=interlink",
                "--",
                "Sealed session",
                "A message from peer 0123abcd."
            ]
        );
        let mac = call(Platform::MacOs, &words).unwrap();
        assert_eq!(mac.args.last().unwrap(), &words.body);
        assert!(mac.args.iter().take(6).all(|arg| !arg.contains("0123abcd")));
        let windows = call(Platform::Windows, &words).unwrap();
        assert!(windows.args.iter().all(|arg| !arg.contains("0123abcd")));
        assert_eq!(
            windows.env[1],
            ("INTERLINK_NOTICE_BODY", words.body.clone())
        );
        assert_eq!(call(Platform::Other, &words), None);
    }

    #[test]
    fn four_words_mean_off() {
        for off in ["off", "OFF", "false", "False", "0", "no", " No "] {
            assert!(is_off(off), "{off:?}");
        }
        for on in ["", "on", "1", "true", "yes", "offline"] {
            assert!(!is_off(on), "{on:?}");
        }
    }

    /// A program that writes down its arguments, one a line, and then `end`.
    fn recorder(dir: &Path) -> (PathBuf, PathBuf) {
        let (program, log) = (dir.join("notify-send"), dir.join("log"));
        let script = format!(
            "#!/bin/sh\nfor a in \"$@\" end \"v=$INTERLINK_TEST_SECRET\"; do printf '%s\\n' \"$a\" >> {0}; done\nmv {0} {0}.done\n",
            log.display()
        );
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        (program, dir.join("log.done"))
    }

    async fn wait_for(mut is: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is() {
            assert!(Instant::now() < deadline, "nothing happened");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn the_program_gets_the_texts_as_arguments_and_is_reaped() {
        let dir = tempfile::tempdir().unwrap();
        let (program, log) = recorder(dir.path());
        let desktop = Desktop::with(Platform::Linux, Some(program), |_| None);
        let name = "-x$(touch y).md";
        let notice = Notice::File {
            from: FROM,
            name,
            size: 10,
        };
        // Another test's fork may hold the script open for writing at the first try.
        let mut now = 0;
        wait_for(|| {
            now += 60_000;
            desktop.tell(UnixMillis(now), &notice)
        })
        .await;
        wait_for(|| log.exists()).await;
        assert_eq!(
            std::fs::read_to_string(&log).unwrap(),
            "--app-name=interlink\n--\nSealed session: a file waits\n\
             From peer 0123abcd: -x__touch y_.md (10 B)\nend\nv=\n"
        );
        wait_for(|| desktop.running.load(Ordering::Acquire) == 0).await;
    }

    #[tokio::test]
    async fn either_switch_silences_everything() {
        let dir = tempfile::tempdir().unwrap();
        let (program, log) = recorder(dir.path());
        for switch in SWITCHES {
            let desktop = Desktop::with(Platform::Linux, Some(program.clone()), move |name| {
                Some(if name == switch { "Off" } else { "on" }.to_owned())
            });
            for notice in all(FROM, "a.md") {
                assert!(!desktop.tell(UnixMillis(1), &notice));
            }
        }
        assert!(!log.exists());
    }

    #[tokio::test]
    async fn each_kind_has_its_pace() {
        let dir = tempfile::tempdir().unwrap();
        let (program, _) = recorder(dir.path());
        let desktop = Desktop::with(Platform::Linux, Some(program), |_| None);
        let mail = Notice::Mail { waiting: 1 };
        assert!(desktop.is_due(UnixMillis(100_000), &mail));
        assert!(!desktop.is_due(UnixMillis(129_999), &mail));
        assert!(desktop.is_due(UnixMillis(129_999), &Notice::Confirmed));
        assert!(desktop.is_due(UnixMillis(130_000), &mail));
        // The clock went back.
        assert!(desktop.is_due(UnixMillis(5), &mail));
    }

    #[tokio::test]
    async fn programs_that_are_missing_or_hang_change_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("none");
        let desktop = Desktop::with(Platform::Linux, Some(missing), |_| None);
        assert!(!desktop.tell(UnixMillis(1), &Notice::Confirmed));
        let desktop = Desktop::with(Platform::Other, None, |_| None);
        assert!(!desktop.tell(UnixMillis(1), &Notice::Confirmed));

        let program = dir.path().join("hangs");
        std::fs::write(&program, "#!/bin/sh\nexec sleep 30\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let desktop = Desktop::with(Platform::Linux, Some(program), |_| None);
        let told = (0..100u64)
            .filter(|n| desktop.tell(UnixMillis(n * 60_000), &Notice::Confirmed))
            .count();
        assert!(told <= MAX_RUNNING, "{told}");
    }

    #[test]
    fn without_a_runtime_nothing_is_told() {
        let desktop = Desktop::with(Platform::Linux, Some(PathBuf::from("/bin/true")), |_| None);
        assert!(!desktop.tell(UnixMillis(1), &Notice::Confirmed));
    }
}
