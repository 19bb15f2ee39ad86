//! Rosters of relays that lie.

use super::memory::{Stored, StoredMap};
use super::*;
use crate::crypto::sign::SigningIdentity;
use crate::domain::machine::presence::Heard;
use crate::types::limit::CLOCK_SLACK_MS;
use crate::types::secret::Secret;
use crate::wire::announce::{Announcement, SessionInfo};

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

fn identity(seed: u8) -> SigningIdentity {
    SigningIdentity::from_seed(&Secret::new([seed; 32]))
}

fn announced(seed: u8, session: &str, name: &str, ts: UnixMillis, age_ms: u64) -> Announcement {
    let info = SessionInfo {
        session_id: session.to_owned(),
        ..SessionInfo::default()
    };
    let mut a = Announcement::sign(&identity(seed), name.to_owned(), info, ts);
    a.age_ms = Some(age_ms);
    a
}

fn raw(list: &[Announcement]) -> Vec<Box<RawValue>> {
    list.iter()
        .map(|a| RawValue::from_string(serde_json::to_string(a).unwrap()).unwrap())
        .collect()
}

fn look(memory: &Memory, rosters: &[&[Announcement]], now: UnixMillis) -> Vec<RosterSession> {
    let known = BTreeSet::new();
    let filter = Filter {
        whom: Whom::Everybody,
        known: &known,
        complete: true,
    };
    let rosters = rosters.iter().map(|list| raw(list)).collect();
    merge(memory, rosters, filter, &StoredMap::new(), now)
}

fn roster(list: &[Announcement]) -> Roster {
    Roster {
        sessions: look(&Memory::default(), &[list], NOW),
        failed: vec![],
        answered: 1,
    }
}

#[test]
fn of_several_relays_the_newest_announcement_counts() {
    let memory = Memory::default();
    let old = announced(1, "s", "old", NOW.minus(30_000), 30_000);
    let new = announced(1, "s", "new", NOW, 5);
    for order in [[&old, &new], [&new, &old]] {
        let seen = look(
            &memory,
            &[&[order[0].clone()], &[order[1].clone()]],
            NOW.plus(5),
        );
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].name, "new");
        assert_eq!(seen[0].presence, Presence::Live { age_ms: 5 });
    }
}

#[test]
fn what_is_not_signed_by_its_key_is_not_there() {
    let mut forged = announced(1, "s", "a", NOW, 0);
    forged.pubkey = identity(2).public();
    let mut renamed = announced(1, "s", "a", NOW, 0);
    renamed.name = "b".to_owned();
    let odd = announced(1, "a\nb", "a", NOW, 0);
    let memory = Memory::default();
    assert_eq!(look(&memory, &[&[forged, renamed, odd]], NOW), []);
    let mut list = raw(&[announced(1, "s", "a", NOW, 0)]);
    list.push(RawValue::from_string("[1]".to_owned()).unwrap());
    list.push(RawValue::from_string("{\"pubkey\":1}".to_owned()).unwrap());
    let known = BTreeSet::new();
    let filter = Filter {
        whom: Whom::Everybody,
        known: &known,
        complete: true,
    };
    assert_eq!(
        merge(&memory, vec![list], filter, &StoredMap::new(), NOW).len(),
        1
    );
}

#[test]
fn a_replayed_announcement_revives_no_session_that_was_seen() {
    let memory = Memory::default();
    let last = announced(1, "s", "a", NOW, 0);
    let seen = look(&memory, &[&[last]], NOW);
    assert_eq!(seen[0].presence, Presence::Live { age_ms: 0 });
    // It closed; ten minutes later somebody posts the announcement again.
    let later = NOW.plus(600_000);
    let replayed = announced(1, "s", "a", NOW, 0);
    let seen = look(&memory, &[&[replayed]], later);
    assert_eq!(seen[0].presence, Presence::Away { age_ms: 600_000 });
}

#[test]
fn who_left_comes_back_with_a_newer_announcement_only() {
    let memory = Memory::default();
    let last = [announced(1, "s", "a", NOW, 0)];
    assert_eq!(look(&memory, &[&last], NOW).len(), 1);
    let soon = NOW.plus(5_000);
    assert_eq!(look(&memory, &[&[]], soon), []);
    // Within the minute and a half that it would still count as live.
    assert_eq!(look(&memory, &[&last], soon), []);
    let older = announced(1, "s", "a", NOW.minus(1), 0);
    assert_eq!(look(&memory, &[&[older]], soon), []);
    let newer = announced(1, "s", "a", NOW.plus(4_000), 0);
    let seen = look(&memory, &[&[newer]], soon);
    assert_eq!(seen[0].presence, Presence::Live { age_ms: 0 });
}

#[test]
fn an_announcement_that_is_older_than_a_known_one_makes_nobody_live() {
    let memory = Memory::default();
    look(&memory, &[&[announced(1, "s", "a", NOW, 0)]], NOW);
    let older = announced(1, "s", "a", NOW.minus(30_000), 0);
    let seen = look(&memory, &[&[older]], NOW.plus(1_000));
    assert_eq!(seen[0].presence, Presence::Away { age_ms: 1_000 });
}

#[test]
fn a_replayed_announcement_deceives_nobody_else_either() {
    let later = NOW.plus(600_000);
    let replayed = announced(1, "s", "a", NOW, 0);
    let seen = look(&Memory::default(), &[&[replayed]], later);
    let age_ms = 600_000 - CLOCK_SLACK_MS;
    assert_eq!(seen[0].presence, Presence::Away { age_ms });
}

#[test]
fn a_good_bye_in_the_log_closes_the_session_for_every_process() {
    let list = raw(&[announced(1, "s", "a", NOW, 0)]);
    let key = identity(1).public();
    let stored: StoredMap = [(
        (key, "s".to_owned()),
        Stored {
            heard: Heard { ts: NOW, at: NOW },
            closed: Some(NOW.plus(1)),
        },
    )]
    .into();
    let known = BTreeSet::from([key]);
    let filter = Filter {
        whom: Whom::Known,
        known: &known,
        complete: true,
    };
    let seen = merge(&Memory::default(), vec![list], filter, &stored, NOW);
    assert_eq!(seen[0].presence, Presence::Closed);
}

#[test]
fn a_target_is_a_key_a_fingerprint_or_a_name_that_only_one_has() {
    let list = [
        announced(1, "s1", "ann", NOW, 100_000),
        announced(1, "s2", "ann", NOW, 10),
        announced(2, "x", "bob", NOW, 0),
        announced(3, "y", "bob", NOW, 0),
    ];
    let roster = roster(&list);
    let ann = identity(1).public();
    for text in [
        ann.to_string(),
        ann.fingerprint().to_string(),
        " ann ".to_owned(),
    ] {
        let target = roster.target(&text).unwrap();
        assert_eq!(target.key, ann, "{text}");
        assert_eq!(target.session.unwrap().as_str(), "s2", "the live one");
    }
    assert_eq!(
        roster.target("bob").unwrap_err(),
        TargetError::Several {
            keys: {
                let mut keys = vec![identity(2).public(), identity(3).public()];
                keys.sort_unstable();
                keys
            }
        }
    );
    assert_eq!(roster.target("carol"), Err(TargetError::Nobody));
    assert_eq!(roster.target(""), Err(TargetError::Nobody));
    let away = identity(9).public();
    let target = roster.target(&away.to_string()).unwrap();
    assert_eq!((target.session, target.presence), (None, Presence::Gone));
}
