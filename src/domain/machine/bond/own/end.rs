//! The end of a session: told, recorded, and nothing left behind.

use super::super::io::{Action, OfferId};
use super::super::row::{Ending, Row};
use super::super::session::Phase;
use super::super::tell::Happening;
use super::files::{Arrival, Source};
use super::io::{OwnAction, OwnHappening, TransferFailure};
use super::session::{OwnSession, Proof};
use super::stream::{Inbox, Outbox};

impl OwnSession {
    /// The end, once: says goodbye, tells, records, erases keys and what was not finished.
    pub(super) fn over(&mut self, ending: Ending, out: &mut Vec<Action>) {
        if self.is_over() {
            return;
        }
        let (chats, files) = self.undelivered();
        self.phase = Phase::Over(ending);
        self.start = None;
        self.met = None;
        self.keys = None;
        self.proof = Proof::default();
        self.posting = None;
        self.outbox = Outbox::default();
        self.inbox = Inbox::default();
        self.end_files(out);
        if !self.said.goodbye {
            self.said.goodbye = true;
            out.push(Action::Goodbye);
        }
        if let Ending::Aborted(reason) = ending {
            out.push(Action::Record(Row::SessionAborted { reason }));
        }
        out.push(Action::Record(Row::SessionEnded { reason: ending }));
        if chats > 0 || files > 0 {
            out.push(Action::Tell(Happening::Own(OwnHappening::Undelivered {
                chats,
                files,
            })));
        }
        out.push(Action::Tell(match ending {
            Ending::User => Happening::Ended,
            Ending::Aborted(reason) => Happening::Aborted { reason },
            Ending::Expired => Happening::Expired,
            Ending::RelayLost => Happening::RelayLost,
            Ending::PeerGone => Happening::PeerGone,
            Ending::OpenFailed(failure) => Happening::OpenFailed { failure },
        }));
    }

    /// What was offered is still with the peer, so it goes with the session.
    fn end_files(&mut self, out: &mut Vec<Action>) {
        let files = std::mem::take(&mut self.files);
        let mut failed = |id: OfferId| {
            let why = TransferFailure::SessionOver;
            out.push(Action::Tell(Happening::Own(OwnHappening::FileFailed {
                id,
                why,
            })));
        };
        let mut effects = Vec::new();
        for file in files.out {
            failed(file.id.clone());
            if matches!(file.source, Source::Edge) {
                effects.push(OwnAction::ReleaseFile { id: file.id });
            }
        }
        for file in files.incoming {
            match file.arrival {
                Arrival::Asked => failed(file.id),
                Arrival::Moving { .. } => {
                    failed(file.id.clone());
                    effects.push(OwnAction::DiscardFile { id: file.id });
                }
                // It is whole and was agreed to: the driver is giving it its name.
                Arrival::Storing => self.files.incoming.push(file),
            }
        }
        self.offers.clear();
        out.extend(effects.into_iter().map(Action::Own));
    }
}
