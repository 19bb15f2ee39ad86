//! When the process ends, and that it does.
//!
//! A host sends SIGINT, SIGTERM and SIGKILL within half a second, or closes the pipe, or dies
//! without a word. Each of them ends this process; the caller says good-bye within its time limit
//! and exits without waiting for threads.

use std::time::Duration;

/// Why the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The client closed its end.
    EndOfInput,
    /// A signal, by name.
    Signal(&'static str),
    /// The parent process is gone.
    ParentDied,
}

/// How often it is looked whether the parent still lives.
#[cfg(unix)]
const PARENT_CHECK: Duration = Duration::from_millis(100);

/// Resolves when a signal asks the process to end.
#[cfg(unix)]
pub async fn signalled() -> Ending {
    use tokio::signal::unix::{SignalKind, signal};
    let wait = |kind: SignalKind, name: &'static str| async move {
        match signal(kind) {
            Ok(mut signal) => {
                signal.recv().await;
                Ending::Signal(name)
            }
            // Without a handler the signal keeps its default, which ends the process as well.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        ending = wait(SignalKind::terminate(), "SIGTERM") => ending,
        ending = wait(SignalKind::interrupt(), "SIGINT") => ending,
        ending = wait(SignalKind::hangup(), "SIGHUP") => ending,
    }
}

/// Resolves when a signal asks the process to end.
#[cfg(not(unix))]
pub async fn signalled() -> Ending {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
    Ending::Signal("Ctrl-C")
}

/// The parent at the start of the program.
#[derive(Clone, Copy, Debug)]
pub struct Parent(#[cfg(unix)] Option<rustix::process::Pid>);

impl Parent {
    /// Asks the kernel. Call it early: a parent that died before is not noticed.
    #[must_use]
    pub fn now() -> Parent {
        #[cfg(unix)]
        return Parent(rustix::process::getppid());
        #[cfg(not(unix))]
        Parent()
    }

    /// Whether the parent is gone by now.
    #[must_use]
    pub fn is_gone(self) -> bool {
        #[cfg(unix)]
        return self.0.is_some() && rustix::process::getppid() != self.0;
        #[cfg(not(unix))]
        false
    }

    /// Resolves when the parent is gone: its children are handed to another process. Never
    /// resolves when there is no parent to watch.
    pub async fn died(self) -> Ending {
        #[cfg(unix)]
        if let Some(parent) = self.0 {
            let mut tick = tokio::time::interval(PARENT_CHECK);
            loop {
                tick.tick().await;
                if rustix::process::getppid() != Some(parent) {
                    return Ending::ParentDied;
                }
            }
        }
        std::future::pending().await
    }
}

/// The kernel's start time of a process, in its own unit; 0 where the system does not say.
/// Together with the process id it tells a process from a later one with the same id.
#[must_use]
pub fn process_start(pid: u32) -> u64 {
    read_start(pid).unwrap_or(0)
}

/// Field 22 of `/proc/<pid>/stat` (proc(5)), counted behind the last `)`, because the second field
/// is a name that may contain anything.
fn read_start(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Whether the process that took a lease still lives. A zombie does not.
#[must_use]
pub fn is_alive(pid: u32, start: u64) -> bool {
    #[cfg(unix)]
    {
        if pid == std::process::id() {
            return start == 0 || start == process_start(pid);
        }
        let Some(id) = i32::try_from(pid)
            .ok()
            .and_then(rustix::process::Pid::from_raw)
        else {
            return false;
        };
        match rustix::process::test_kill_process(id) {
            // It exists but belongs to somebody else: the id was used again.
            Err(_) => false,
            Ok(()) => start == 0 || (process_start(pid) == start && !is_zombie(pid)),
        }
    }
    #[cfg(not(unix))]
    {
        // Nothing to ask: leave its mail to it.
        let _ = (pid, start);
        true
    }
}

#[cfg(unix)]
fn is_zombie(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| {
            let (_, rest) = stat.rsplit_once(')')?;
            rest.split_ascii_whitespace()
                .next()
                .map(|state| state == "Z")
        })
        .unwrap_or(false)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_a_later_one_with_its_id() {
        let me = std::process::id();
        let start = process_start(me);
        assert!(start > 0);
        assert!(is_alive(me, start));
        assert!(!is_alive(me, start + 1));
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let start = process_start(child.id());
        assert!(is_alive(child.id(), start));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_alive(child.id(), start));
        assert!(!is_alive(0, 0));
    }
}
