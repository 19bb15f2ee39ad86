//! A program on a terminal of its own: a pseudo-terminal that is its controlling one, a reader that
//! collects what it shows, and somebody who types.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::mcp_support::eventually;

/// A program and its terminal. Standard output and error are pipes.
pub(crate) struct Terminal {
    keyboard: File,
    shown: Arc<Mutex<String>>,
    child: Child,
    /// Keeps the terminal open until the end.
    _screen: File,
}

/// How a program on a terminal ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// What it wrote to the terminal.
    pub(crate) shown: String,
}

impl Terminal {
    /// Starts a program in a session of its own whose controlling terminal is a new one. `setsid` makes
    /// the session; the shell in it opens the terminal, which makes it the controlling one.
    pub(crate) fn start(program: &Command) -> Terminal {
        let master: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, vec![]).unwrap().into_string().unwrap();
        let screen = open_screen(&name);
        let mut command = Command::new("setsid");
        command
            .args(["--wait", "sh", "-c", "exec 3<>\"$0\"; exec \"$@\" 3>&-"])
            .arg(&name)
            .arg(program.get_program())
            .args(program.get_args())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        for (name, value) in program.get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let master = File::from(master);
        let shown = Arc::new(Mutex::new(String::new()));
        let (mut from, into) = (master.try_clone().unwrap(), Arc::clone(&shown));
        thread::spawn(move || {
            let mut chunk = [0u8; 1024];
            let mut all = vec![];
            while let Ok(n @ 1..) = from.read(&mut chunk) {
                // A character may come in two pieces.
                all.extend_from_slice(&chunk[..n]);
                *into.lock().unwrap() = String::from_utf8_lossy(&all).into_owned();
            }
        });
        Terminal {
            keyboard: master,
            shown,
            child,
            _screen: screen,
        }
    }

    /// Waits until the terminal shows a text.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let mut ended: Option<(ExitStatus, Instant)> = None;
        eventually(text, || {
            let shown = self.shown.lock().unwrap().clone();
            if shown.contains(text) {
                return Some(shown);
            }
            // What it wrote last may still be on its way to us.
            match ended {
                None => ended = self.child.try_wait().unwrap().map(|s| (s, Instant::now())),
                Some((status, since)) if since.elapsed() > Duration::from_secs(5) => {
                    let mut said = String::new();
                    let stderr = self.child.stderr.as_mut().unwrap();
                    let _ = stderr.read_to_string(&mut said);
                    panic!("it ended with {status} and never asked: {said}");
                }
                Some(_) => {}
            }
            None
        })
    }

    /// Types, return key included where the text has one.
    pub(crate) fn type_in(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    /// Waits for the end.
    pub(crate) fn end(mut self) -> Ended {
        let status = eventually("the end", || self.child.try_wait().unwrap());
        let mut ended = Ended {
            code: status.code(),
            stdout: String::new(),
            stderr: String::new(),
            shown: self.shown.lock().unwrap().clone(),
        };
        let (mut out, mut err) = (self.child.stdout.take(), self.child.stderr.take());
        out.as_mut()
            .unwrap()
            .read_to_string(&mut ended.stdout)
            .unwrap();
        err.as_mut()
            .unwrap()
            .read_to_string(&mut ended.stderr)
            .unwrap();
        ended
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Opens the terminal without making it this process's own.
fn open_screen(name: &str) -> File {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = rustix::fs::OFlags::NOCTTY.bits();
    File::options()
        .read(true)
        .write(true)
        .custom_flags(i32::try_from(flags).unwrap())
        .open(name)
        .unwrap()
}
