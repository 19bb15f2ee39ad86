//! What clients saw, and whether a system that loses, doubles, reorders and invents nothing could
//! have shown it to them.
//!
//! Clients note the beginning of a request before they make it and its success after they have the
//! answer, all in one list. A request that has a beginning and no success may have happened or not.
//! [`check`] is a pure function of that list.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;

/// A client.
pub(crate) type Who = u16;

/// A message, by who sent it to whom and its number among these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Msg {
    pub(crate) from: Who,
    pub(crate) to: Who,
    pub(crate) n: u32,
}

impl Msg {
    /// The text that carries it.
    pub(crate) fn text(self) -> String {
        format!("m.{}.{}.{}.", self.from, self.to, self.n)
    }

    /// The message that a text carries.
    pub(crate) fn parse(text: &str) -> Option<Msg> {
        let mut parts = text.strip_prefix("m.")?.split('.');
        let msg = Msg {
            from: parts.next()?.parse().ok()?,
            to: parts.next()?.parse().ok()?,
            n: parts.next()?.parse().ok()?,
        };
        parts.next().map(|_| msg)
    }
}

/// What a mailbox calls a message, and takes to acknowledge it.
pub(crate) type Key = String;

/// One thing that a client did or learned.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// Asked to send; again, if it does not know how the last try ended.
    SendBegan(Msg),
    /// Was told that the message is taken, and its name if there is one already.
    SendDone(Msg, Option<Key>),
    /// Asked for unread messages.
    LookBegan { look: u32 },
    /// Got them; `whole` when there are no others.
    LookDone {
        look: u32,
        reader: Who,
        seen: Vec<(Key, Msg)>,
        whole: bool,
    },
    /// Asked to acknowledge.
    AckBegan { reader: Who, keys: Vec<Key> },
    /// Was told that it is done.
    AckDone { reader: Who, keys: Vec<Key> },
    /// The system recorded that this one left its queue unread.
    Dropped { key: Key, msg: Msg },
}

/// What should not have been seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// A message that nobody sent, or not to this reader.
    Invented { reader: Who, msg: Msg },
    /// Taken, never seen, and no record of a drop.
    Lost(Msg),
    /// Twice at the same time.
    Twice(Msg),
    /// Again under another name, although it was sent once, or never acknowledged in between.
    Doubled(Msg),
    /// Unread again after it was acknowledged.
    Returned(Msg),
    /// Seen, never acknowledged, and gone.
    Vanished(Msg),
    /// Behind a message that was sent later.
    Disorder { msg: Msg, behind: u32 },
    /// Under another name than its sender was told.
    Renamed(Msg),
}

/// How much was checked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) taken: usize,
    pub(crate) unsure: usize,
    pub(crate) seen: usize,
    pub(crate) acknowledged: usize,
    pub(crate) dropped: usize,
    pub(crate) looks: usize,
}

#[derive(Default)]
struct Send {
    attempts: u32,
    done: bool,
    name: Option<Key>,
}

struct Letter {
    msg: Msg,
    ack_began: bool,
    ack_done: Option<usize>,
}

#[derive(Default)]
struct Checker {
    sends: BTreeMap<Msg, Send>,
    letters: BTreeMap<(Who, Key), Letter>,
    /// Those that must be there: seen, no acknowledgement begun, no drop on record.
    open: BTreeMap<(Who, Key), usize>,
    names: HashMap<Msg, Vec<Key>>,
    newest: HashMap<(Who, Who), u32>,
    looks: HashMap<u32, usize>,
    dropped_keys: BTreeSet<Key>,
    dropped: BTreeSet<Msg>,
    found: Vec<Violation>,
    tally: Tally,
}

/// Looks for the impossible.
pub(crate) fn check(history: &[Event]) -> Result<Tally, Vec<Violation>> {
    let mut checker = Checker::default();
    for event in history {
        if let Event::Dropped { key, msg } = event {
            checker.dropped_keys.insert(key.clone());
            checker.dropped.insert(*msg);
        }
    }
    for (at, event) in history.iter().enumerate() {
        checker.step(at, event);
    }
    checker.finish()
}

impl Checker {
    fn step(&mut self, at: usize, event: &Event) {
        match event {
            Event::SendBegan(msg) => self.sends.entry(*msg).or_default().attempts += 1,
            Event::SendDone(msg, name) => {
                let send = self.sends.entry(*msg).or_default();
                send.done = true;
                send.name = name.clone();
            }
            Event::LookBegan { look } => {
                self.looks.insert(*look, at);
            }
            Event::LookDone {
                look,
                reader,
                seen,
                whole,
            } => self.look(self.looks[look], at, *reader, seen, *whole),
            Event::AckBegan { reader, keys } => {
                for key in keys {
                    let name = (*reader, key.clone());
                    self.open.remove(&name);
                    if let Some(letter) = self.letters.get_mut(&name) {
                        letter.ack_began = true;
                    }
                }
            }
            Event::AckDone { reader, keys } => {
                for key in keys {
                    if let Some(letter) = self.letters.get_mut(&(*reader, key.clone())) {
                        letter.ack_done.get_or_insert(at);
                    }
                }
            }
            Event::Dropped { .. } => {}
        }
    }

    fn look(&mut self, began: usize, at: usize, reader: Who, seen: &[(Key, Msg)], whole: bool) {
        self.tally.looks += 1;
        let mut here = BTreeSet::new();
        let mut last: HashMap<Who, u32> = HashMap::new();
        for (key, msg) in seen {
            if msg.to != reader || !self.sends.contains_key(msg) {
                self.found.push(Violation::Invented { reader, msg: *msg });
                continue;
            }
            if !here.insert(*msg) {
                self.found.push(Violation::Twice(*msg));
                continue;
            }
            let behind = last.insert(msg.from, msg.n);
            if let Some(behind) = behind.filter(|n| *n > msg.n) {
                self.found.push(Violation::Disorder { msg: *msg, behind });
            }
            match self.letters.get(&(reader, key.clone())) {
                Some(known) if known.ack_done.is_some_and(|done| done < began) => {
                    self.found.push(Violation::Returned(*msg));
                }
                Some(_) => {}
                None => self.first_sight(at, reader, key, *msg),
            }
        }
        if whole {
            let gone = self
                .open
                .iter()
                .filter(|((who, _), seen_at)| *who == reader && **seen_at < began)
                .map(|(name, _)| self.letters[name].msg)
                .filter(|msg| !here.contains(msg))
                .map(Violation::Vanished);
            self.found.extend(gone);
        }
    }

    fn first_sight(&mut self, at: usize, reader: Who, key: &Key, msg: Msg) {
        let others = self.names.entry(msg).or_default();
        if others.is_empty() {
            let newest = self.newest.entry((msg.from, msg.to)).or_insert(msg.n);
            if *newest > msg.n {
                let behind = *newest;
                self.found.push(Violation::Disorder { msg, behind });
            }
            *newest = msg.n.max(*newest);
        } else {
            // A sender that does not know may send again; while the first one waits, it counts once.
            let read = others
                .iter()
                .all(|k| self.letters[&(reader, k.clone())].ack_began);
            if !read || others.len() >= self.sends[&msg].attempts as usize {
                self.found.push(Violation::Doubled(msg));
            }
        }
        others.push(key.clone());
        if !self.dropped_keys.contains(key) {
            self.open.insert((reader, key.clone()), at);
        }
        self.letters.insert(
            (reader, key.clone()),
            Letter {
                msg,
                ack_began: false,
                ack_done: None,
            },
        );
    }

    fn finish(mut self) -> Result<Tally, Vec<Violation>> {
        for (msg, send) in &self.sends {
            let names = self.names.get(msg).map(Vec::as_slice).unwrap_or_default();
            if send.done && names.is_empty() && !self.dropped.contains(msg) {
                self.found.push(Violation::Lost(*msg));
            }
            if let Some(name) = &send.name
                && names.iter().any(|n| n != name)
            {
                self.found.push(Violation::Renamed(*msg));
            }
        }
        if !self.found.is_empty() {
            return Err(self.found);
        }
        let done = |letter: &&Letter| letter.ack_done.is_some();
        Ok(Tally {
            taken: self.sends.values().filter(|s| s.done).count(),
            unsure: self.sends.values().filter(|s| !s.done).count(),
            seen: self.letters.len(),
            acknowledged: self.letters.values().filter(done).count(),
            dropped: self.dropped.len(),
            looks: self.tally.looks,
        })
    }
}

/// The list that all clients of a run write.
#[derive(Default)]
pub(crate) struct Recorder(Mutex<Book>);

#[derive(Default)]
struct Book {
    events: Vec<Event>,
    looks: u32,
    taken: BTreeSet<Msg>,
    seen: BTreeSet<Msg>,
    unseen: BTreeSet<Msg>,
}

impl Recorder {
    fn book(&self) -> std::sync::MutexGuard<'_, Book> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn add(&self, event: Event) {
        let mut book = self.book();
        match &event {
            Event::SendDone(msg, _) => {
                book.taken.insert(*msg);
                if !book.seen.contains(msg) {
                    book.unseen.insert(*msg);
                }
            }
            Event::LookDone { seen, .. } => {
                for (_, msg) in seen {
                    book.seen.insert(*msg);
                    book.unseen.remove(msg);
                }
            }
            _ => {}
        }
        book.events.push(event);
    }

    /// Notes that a look begins; its number.
    pub(crate) fn look(&self) -> u32 {
        let mut book = self.book();
        book.looks += 1;
        let look = book.looks;
        book.events.push(Event::LookBegan { look });
        look
    }

    /// Messages that were taken and are not seen yet.
    pub(crate) fn on_the_way(&self) -> Vec<Msg> {
        self.book().unseen.iter().copied().collect()
    }

    /// How many messages of a sender are on the way.
    pub(crate) fn unseen_of(&self, from: Who) -> usize {
        let book = self.book();
        book.unseen.iter().filter(|msg| msg.from == from).count()
    }

    /// How many messages were seen.
    pub(crate) fn seen(&self) -> usize {
        self.book().seen.len()
    }

    /// How many messages of a sender were taken.
    pub(crate) fn taken_of(&self, from: Who) -> usize {
        let book = self.book();
        book.taken.iter().filter(|msg| msg.from == from).count()
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.book().events.clone()
    }

    /// The judgement. Prints what was checked.
    #[track_caller]
    pub(crate) fn judge(&self) -> Tally {
        let tally = check(&self.events()).unwrap_or_else(|v| panic!("the history is bad: {v:?}"));
        println!("history: {tally:?}");
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn m(n: u32) -> Msg {
        Msg { from: 1, to: 2, n }
    }

    fn sent(n: u32) -> Vec<Event> {
        vec![Event::SendBegan(m(n)), Event::SendDone(m(n), None)]
    }

    /// A look that sees these, each under the name of its number.
    fn look(look: u32, numbers: &[u32]) -> Vec<Event> {
        let named: Vec<_> = numbers.iter().map(|n| (n.to_string(), m(*n))).collect();
        look_named(look, &named)
    }

    fn look_named(look: u32, seen: &[(String, Msg)]) -> Vec<Event> {
        let done = Event::LookDone {
            look,
            reader: 2,
            seen: seen.to_vec(),
            whole: true,
        };
        vec![Event::LookBegan { look }, done]
    }

    fn ack_began(key: &str) -> Vec<Event> {
        let keys = vec![key.to_owned()];
        vec![Event::AckBegan { reader: 2, keys }]
    }

    fn acked(key: &str) -> Vec<Event> {
        let mut events = ack_began(key);
        let keys = vec![key.to_owned()];
        events.push(Event::AckDone { reader: 2, keys });
        events
    }

    fn caught(parts: &[Vec<Event>]) -> Vec<Violation> {
        check(&parts.concat()).expect_err("it was not caught")
    }

    fn fine(parts: &[Vec<Event>]) -> Tally {
        check(&parts.concat()).unwrap_or_else(|v| panic!("{v:?}"))
    }

    #[test]
    fn texts_carry_messages() {
        assert_eq!(Msg::parse(&m(7).text()), Some(m(7)));
        assert_eq!(Msg::parse("m.1.2.7.and more"), Some(m(7)));
        // Cut off, it could be another one.
        assert_eq!(Msg::parse("m.1.2.7"), None);
    }

    #[test]
    fn what_a_good_system_shows_passes() {
        let unsure = vec![Event::SendBegan(m(3))];
        let tally = fine(&[
            sent(1),
            sent(2),
            look(1, &[1, 2]),
            acked("1"),
            look(2, &[2]),
            unsure,
            acked("2"),
            look(3, &[]),
        ]);
        assert_eq!((tally.taken, tally.unsure, tally.seen), (2, 1, 2));
        assert_eq!((tally.acknowledged, tally.looks), (2, 3));
    }

    #[test]
    fn what_nobody_sent_is_caught() {
        let invented = Violation::Invented {
            reader: 2,
            msg: m(1),
        };
        assert_eq!(caught(&[look(1, &[1])]), std::slice::from_ref(&invented));
        // Sent only after it was seen.
        assert_eq!(caught(&[look(1, &[1]), sent(1), look(2, &[1])]), [invented]);
        let astray = Msg { to: 3, ..m(1) };
        let elsewhere = vec![Event::SendBegan(astray)];
        let seen = look_named(1, &[("x".into(), astray)]);
        let invented = Violation::Invented {
            reader: 2,
            msg: astray,
        };
        assert_eq!(caught(&[elsewhere, seen]), [invented]);
    }

    #[test]
    fn what_was_taken_and_never_seen_is_caught_unless_its_drop_is_on_record() {
        let lost = [sent(1), sent(2), look(1, &[2])];
        assert_eq!(caught(&lost), [Violation::Lost(m(1))]);
        let dropped = vec![Event::Dropped {
            key: "1".into(),
            msg: m(1),
        }];
        assert_eq!(fine(&[lost.concat(), dropped]).dropped, 1);
    }

    #[test]
    fn what_stands_twice_in_a_mailbox_is_caught() {
        let twice = look_named(1, &[("1".into(), m(1)), ("2".into(), m(1))]);
        assert_eq!(caught(&[sent(1), twice]), [Violation::Twice(m(1))]);
        let twice = look(1, &[1, 1]);
        assert_eq!(caught(&[sent(1), twice]), [Violation::Twice(m(1))]);
    }

    #[test]
    fn what_comes_again_under_another_name_is_caught_unless_it_was_sent_again() {
        let again = look_named(2, &[("b".into(), m(1))]);
        let first = look(1, &[1]);
        let doubled = [Violation::Doubled(m(1))];
        assert_eq!(
            caught(&[sent(1), first.clone(), acked("1"), again.clone()]),
            doubled
        );
        let retried = [Event::SendBegan(m(1))]
            .into_iter()
            .chain(sent(1))
            .collect();
        fine(&[retried, first.clone(), ack_began("1"), again.clone()]);
        // While it waits, the second post counts for nothing.
        let retried = [sent(1), sent(1)].concat();
        let seen = caught(&[retried, first, again]);
        assert!(seen.contains(&doubled[0]), "{seen:?}");
    }

    #[test]
    fn what_was_acknowledged_and_comes_back_is_caught() {
        let returned = [sent(1), look(1, &[1]), acked("1"), look(2, &[1])];
        assert_eq!(caught(&returned), [Violation::Returned(m(1))]);
        // A look that began before the answer may still see it, and one after a lost answer.
        let mut overlapping = look(2, &[1]);
        let done = overlapping.pop().unwrap();
        fine(&[
            sent(1),
            look(1, &[1]),
            overlapping,
            acked("1"),
            vec![done],
            look(3, &[]),
        ]);
        fine(&[sent(1), look(1, &[1]), ack_began("1"), look(2, &[1])]);
    }

    #[test]
    fn what_is_gone_without_an_acknowledgement_is_caught() {
        let gone = [sent(1), look(1, &[1]), look(2, &[])];
        assert_eq!(caught(&gone), [Violation::Vanished(m(1))]);
        fine(&[sent(1), look(1, &[1]), ack_began("1"), look(2, &[])]);
        let dropped = vec![Event::Dropped {
            key: "1".into(),
            msg: m(1),
        }];
        fine(&[gone.concat(), dropped]);
    }

    #[test]
    fn what_overtakes_is_caught() {
        let disorder = [Violation::Disorder {
            msg: m(1),
            behind: 2,
        }];
        assert_eq!(caught(&[sent(1), sent(2), look(1, &[2, 1])])[..1], disorder);
        let late = [
            sent(1),
            sent(2),
            look(1, &[2]),
            acked("2"),
            look(2, &[1]),
            acked("1"),
        ];
        assert_eq!(caught(&late), disorder);
        // Of two senders nothing is promised.
        let other = Msg { from: 9, ..m(1) };
        let both = look_named(1, &[("2".into(), m(2)), ("x".into(), other)]);
        fine(&[sent(2), vec![Event::SendBegan(other)], both]);
    }

    #[test]
    fn what_has_another_name_than_its_sender_was_told_is_caught() {
        let told = vec![
            Event::SendBegan(m(1)),
            Event::SendDone(m(1), Some("x".into())),
        ];
        assert_eq!(caught(&[told, look(1, &[1])]), [Violation::Renamed(m(1))]);
    }
}
