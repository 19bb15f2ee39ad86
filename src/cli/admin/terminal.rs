//! Consent on the operator's terminal.
//!
//! The answer is read from the controlling terminal, not from standard input: a pipe is not a person.
//! What was typed before the prompt stood there does not count, so a pasted second line cannot answer
//! it. And a coding agent's shell is not the operator's: its variables give it away.
//!
//! That is a hurdle, not a wall: a program with the user's rights can open a terminal of its own and
//! clear its environment, and it can edit the user's files just as well.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};

use crate::types::id::PublicKey;
use crate::types::text::visible;

/// Characters of the fingerprint that are to be typed.
const TYPED: usize = 4;
/// Longest line that is read, in bytes.
const MAX_LINE: u64 = 256;

/// Variables that coding agents set for the programs that they run.
const MARKERS: [&str; 8] = [
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SESSION_ID",
    "AI_AGENT",
    "CURSOR_AGENT",
    "GEMINI_CLI",
    "OPENCODE",
    "COPILOT_AGENT",
];
/// The same by their beginning, and those of them that users set themselves.
const MARKER_PREFIX: &str = "CODEX_";
const USERS_OWN: [&str; 3] = ["CODEX_HOME", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN"];

/// What to do before admitting a key.
pub(super) const COMPARE: &str = "Compare the key, or at least the fingerprint, with what its owner \
                                  tells you by another way.";

/// How a question that admits somebody is put.
#[derive(Debug, clap::Args)]
pub(super) struct Admission {
    #[command(flatten)]
    pub(super) shell: Shell,

    /// Without effect: admission is never taken for granted
    #[arg(long, short, hide = true)]
    pub(super) yes: bool,
}

/// Whose shell this is.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Shell {
    /// Go on although this looks like the shell of a coding agent
    #[arg(long)]
    i_am_the_operator: bool,
}

impl Shell {
    /// Refuses the shell of a coding agent.
    pub(super) fn check(self) -> Result<(), TerminalError> {
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        match agent_marker(names) {
            Some(marker) if !self.i_am_the_operator => Err(TerminalError::AgentsShell { marker }),
            _ => Ok(()),
        }
    }
}

/// What the operator is asked.
#[derive(Clone, Debug)]
pub(super) struct Question<'a> {
    /// What happens: one line.
    pub(super) head: &'a str,
    /// The key that it is about.
    pub(super) key: PublicKey,
    /// The name that the key has here, or gets.
    pub(super) petname: &'a str,
    /// The name that it gives itself.
    pub(super) claimed: Option<&'a str>,
    /// What to think of before the answer.
    pub(super) advice: &'a str,
}

/// Nobody was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum TerminalError {
    #[error("this looks like the shell of a coding agent ({marker} is set)")]
    AgentsShell { marker: String },
    #[error("there is no terminal to ask on: {0}")]
    None(#[source] io::Error),
    #[error("the terminal failed: {0}")]
    Io(#[source] io::Error),
}

/// Asks on the terminal. True: what was typed is the beginning of the fingerprint.
pub(super) fn confirm(question: &Question<'_>, shell: Shell) -> Result<bool, TerminalError> {
    shell.check()?;
    let line = ask(&text(question), &prompt())?;
    Ok(is_yes(line.trim(), &question.key))
}

/// Asks on the terminal about what a text says. True: `yes` was typed.
pub(super) fn agree(text: &str) -> Result<bool, TerminalError> {
    let line = ask(text, "Type yes to go on, anything else to stop: ")?;
    Ok(line.trim() == "yes")
}

/// Asks on the terminal about what a text says, of which everything foreign is spelled out; gives what
/// was typed.
pub(super) fn confirm_text(
    text: &str,
    prompt: &str,
    shell: Shell,
) -> Result<String, TerminalError> {
    shell.check()?;
    Ok(ask(text, prompt)?.trim().to_owned())
}

/// The line that is typed behind a prompt.
fn ask(text: &str, prompt: &str) -> Result<String, TerminalError> {
    let mut terminal = open().map_err(TerminalError::None)?;
    // What was typed before the prompt stood there is nobody's answer; whatever follows it counts.
    say(&mut terminal, text)
        .and_then(|()| drain(&terminal))
        .and_then(|()| say(&mut terminal, prompt))
        .map_err(TerminalError::Io)?;
    let mut line = String::new();
    BufReader::new(terminal.take(MAX_LINE))
        .read_line(&mut line)
        .map_err(TerminalError::Io)?;
    Ok(line)
}

fn say(terminal: &mut File, text: &str) -> io::Result<()> {
    terminal.write_all(text.as_bytes())?;
    terminal.flush()
}

fn prompt() -> String {
    format!(
        "Type the first {TYPED} characters of the fingerprint to go on, anything else to stop: "
    )
}

fn is_yes(typed: &str, key: &PublicKey) -> bool {
    typed.len() >= TYPED && key.to_string().starts_with(typed)
}

/// The first variable that only an agent's shell has.
fn agent_marker(names: impl Iterator<Item = String>) -> Option<String> {
    let mut found: Vec<String> = names
        .filter(|name| {
            MARKERS.contains(&name.as_str())
                || (name.starts_with(MARKER_PREFIX) && !USERS_OWN.contains(&name.as_str()))
        })
        .collect();
    found.sort();
    found.into_iter().next()
}

fn text(question: &Question<'_>) -> String {
    let claimed = question.claimed.map_or_else(String::new, |name| {
        format!("\n  calls itself  {} (not verified)", visible(name))
    });
    format!(
        "{}\n\n  your name     {}{claimed}\n  key           {}\n  fingerprint   {}\n\n\
         {}\n",
        question.head,
        visible(question.petname),
        question.key,
        question.key.fingerprint(),
        question.advice,
    )
}

#[cfg(unix)]
fn open() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/tty")
}

/// Forgets what was typed up to now.
#[cfg(unix)]
fn drain(terminal: &File) -> io::Result<()> {
    use rustix::termios::{QueueSelector, tcflush};
    Ok(tcflush(terminal, QueueSelector::IFlush)?)
}

#[cfg(not(unix))]
fn open() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("CON")
}

#[cfg(not(unix))]
fn drain(_terminal: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::sign::SigningIdentity;
    use crate::types::secret::Secret;

    fn marker(names: &[&str]) -> Option<String> {
        agent_marker(names.iter().map(|name| (*name).to_owned()))
    }

    #[test]
    fn shells_of_coding_agents_are_known_by_their_variables() {
        for name in [
            "CLAUDECODE",
            "CLAUDE_CODE_ENTRYPOINT",
            "AI_AGENT",
            "CODEX_SANDBOX",
            "CODEX_THREAD_ID",
        ] {
            assert_eq!(marker(&["HOME", name]).as_deref(), Some(name));
        }
        assert_eq!(
            marker(&["HOME", "CODEX_HOME", "CODEX_API_KEY", "CLAUDE"]),
            None
        );
    }

    #[test]
    fn only_the_beginning_of_the_fingerprint_is_consent() {
        let key = SigningIdentity::from_seed(&Secret::new([7; 32])).public();
        let all = key.to_string();
        let n = |n: usize| all.get(..n).unwrap();
        for yes in [n(4), n(8), n(43)] {
            assert!(is_yes(yes, &key), "{yes}");
        }
        let other = if n(4).starts_with('x') {
            "yyyy"
        } else {
            "xxxx"
        };
        for no in ["", "y", "yes", n(3), other] {
            assert!(!is_yes(no, &key), "{no}");
        }
    }
}
