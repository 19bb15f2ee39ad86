//! What a bus holds, and taking it away: of a closed store, or through the bus that runs on it.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use super::error::AdminError;
use super::locate::{Access, Target};
use super::print::note_source;
use super::reader::{Origin, owner};
use crate::domain::decide::bus::{Bus, BusCommand, BusReply, RelayCommand, RelayReply};
use crate::event::kind::StoreKind;
use crate::store::{CommandError, Location, OpenOptions, Store, holdings};
use crate::system::SystemClock;
use crate::types::limit::{MAX_ADMIN_ROWS, MAX_EXPIRE_BATCH};
use crate::types::seq::Seq;
use crate::types::time::Clock as _;
use crate::wire::operator::{
    Board, BoardRow, Discard, EndRelayed, Evict, RelayedSession, RelayedSessions, Removed, Waiting,
    WaitingList,
};

/// A bus whose holdings are looked at or taken away.
pub(super) struct Held {
    access: Access,
}

impl Held {
    /// The only bus among the targets.
    pub(super) fn only(targets: &[Target]) -> Result<Held, AdminError> {
        let mut found = vec![];
        for target in targets {
            let access = match target.access() {
                Ok(access) => access,
                // Some other store may be damaged without being in the way.
                Err(_) if targets.len() > 1 => continue,
                Err(e) => return Err(e),
            };
            if access.reader().origin().kind == StoreKind::Bus {
                found.push(access);
            } else if targets.len() == 1 {
                access.reader().expect(StoreKind::Bus)?;
            }
        }
        match (found.pop(), found.len()) {
            (Some(access), 0) => {
                note_source(access.reader().origin());
                Ok(Held { access })
            }
            (None, _) => Err(AdminError::NoneOfKind {
                wanted: owner(StoreKind::Bus),
            }),
            (Some(_), more) => Err(AdminError::Positions { stores: more + 1 }),
        }
    }

    /// Which store this is.
    pub(super) fn origin(&self) -> &Origin {
        self.access.reader().origin()
    }

    /// Names of the queues in which something waits.
    pub(super) fn names(&self) -> Result<Vec<String>, AdminError> {
        let queues = self.access.reader().queues()?.queues;
        Ok(queues.into_iter().map(|queue| queue.to).collect())
    }

    /// Messages of a queue, oldest first.
    pub(super) fn queue(&self, to: &str) -> Result<Vec<Waiting>, AdminError> {
        let mut messages: Vec<Waiting> = vec![];
        loop {
            let from = messages.last().map_or(0, |last| last.seq + 1);
            let page = match &self.access {
                Access::File(file) => {
                    file.read(|s| holdings::queue(s, to, Seq(from), MAX_ADMIN_ROWS))?
                }
                Access::Endpoint(bus) => {
                    let to = encoded(to);
                    bus.get::<WaitingList>(&format!("queue?to={to}&from={from}"))?
                }
            };
            if page.messages.is_empty() {
                return Ok(messages);
            }
            messages.extend(page.messages);
        }
    }

    /// The message at a position, if it waits.
    pub(super) fn message(&self, seq: u64, body: bool) -> Result<Option<Waiting>, AdminError> {
        match &self.access {
            Access::File(file) => file.read(|s| holdings::message(s, Seq(seq), body)),
            Access::Endpoint(bus) => bus.find(&format!("message/{seq}?body={body}")),
        }
    }

    /// The presence board.
    pub(super) fn board(&self) -> Result<Vec<BoardRow>, AdminError> {
        let board = match &self.access {
            Access::File(file) => file.read(holdings::board)?,
            Access::Endpoint(bus) => bus.get::<Board>("roster")?,
        };
        Ok(board.sessions)
    }

    /// The sessions that are relayed.
    pub(super) fn relayed(&self) -> Result<Vec<RelayedSession>, AdminError> {
        let relayed = match &self.access {
            Access::File(file) => file.read(holdings::relayed)?,
            Access::Endpoint(bus) => bus.get::<RelayedSessions>("relay")?,
        };
        Ok(relayed.sessions)
    }

    /// Ends a session that is relayed.
    pub(super) fn end_relayed(self, session: u64) -> Result<u64, AdminError> {
        let wish = EndRelayed { session };
        let command = || {
            BusCommand::Relay(RelayCommand::End {
                session: Some(Seq(session)),
                now: SystemClock.now(),
                max: 1,
            })
        };
        self.take("relay", &wish, command, false)
    }

    /// Takes messages out of a queue, one or all of them; how many these were. Durable when this
    /// returns.
    pub(super) fn discard(self, to: &str, seq: Option<u64>) -> Result<u64, AdminError> {
        let wish = Discard {
            to: to.to_owned(),
            seq,
        };
        self.take(
            "discard",
            &wish,
            || BusCommand::Discard {
                to: to.to_owned(),
                seq: seq.map(Seq),
                max: MAX_EXPIRE_BATCH,
            },
            seq.is_none(),
        )
    }

    /// Takes a session off the board.
    pub(super) fn evict(self, entry: &str) -> Result<u64, AdminError> {
        let entry = entry.to_owned();
        let wish = Evict {
            entry: entry.clone(),
        };
        self.take(
            "evict",
            &wish,
            || BusCommand::Evict {
                entry: entry.clone(),
            },
            false,
        )
    }

    fn take(
        self,
        route: &str,
        wish: &impl Serialize,
        command: impl Fn() -> BusCommand,
        all: bool,
    ) -> Result<u64, AdminError> {
        let mut sum = 0;
        let mut turn: Box<dyn FnMut() -> Result<u64, AdminError>> = match self.access {
            Access::Endpoint(bus) => Box::new(move || Ok(bus.post::<Removed>(route, wish)?.count)),
            Access::File(file) => {
                let path = file.origin_path().to_owned();
                // The reader would keep the store from being opened.
                drop(file);
                let store = open(&path)?;
                Box::new(move || submit(&store, command()))
            }
        };
        loop {
            let count = turn()?;
            sum += count;
            if !all || count < MAX_EXPIRE_BATCH as u64 {
                return Ok(sum);
            }
        }
    }
}

fn open(path: &Path) -> Result<Store<Bus>, AdminError> {
    let options = OpenOptions::exclusive(Location::File(path.to_owned()));
    Ok(Store::<Bus>::open(options, Arc::new(SystemClock), None)?)
}

fn submit(store: &Store<Bus>, command: BusCommand) -> Result<u64, AdminError> {
    let refused = |e: CommandError<_>| AdminError::BusRefuses(e.to_string());
    let receipt = store
        .submit(command)
        .map_err(|e| AdminError::BusRefuses(e.to_string()))?;
    match receipt.wait().map_err(refused)?.reply {
        BusReply::Removed { count } | BusReply::Relay(RelayReply::Ended { count }) => {
            Ok(count as u64)
        }
        _ => Ok(0),
    }
}

/// A text as it stands in a query (RFC 3986 section 2.1).
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_names_survive_a_query() {
        assert_eq!(encoded("aZ09-_.~"), "aZ09-_.~");
        assert_eq!(encoded("a#b &\u{e9}"), "a%23b%20%26%C3%A9");
    }
}
