//! Every step of the choice, on hand-made worlds.

use super::*;

fn key(n: u8) -> PublicKey {
    PublicKey::from_bytes([n; 32])
}

fn id(text: &str) -> SessionId {
    SessionId::parse(text).unwrap()
}

const LIVE: Presence = Presence::Live { age_ms: 1 };
const AWAY: Presence = Presence::Away { age_ms: 100_000 };
const ME: u8 = 1;
const BOB: u8 = 2;
const EVE: u8 = 3;

/// A world that owns what it is made of.
struct Setting {
    own: SessionId,
    peers: Vec<(String, PublicKey)>,
    seen: Option<Vec<Seen>>,
    owners: BTreeMap<SessionId, Owner>,
    remembered: Vec<Remembered>,
    siblings: BTreeSet<SessionId>,
    last: BTreeMap<PublicKey, SessionId>,
}

impl Setting {
    fn new(seen: &[(u8, &str, Presence)]) -> Setting {
        Setting {
            own: id("mine"),
            peers: vec![("bob".to_owned(), key(BOB)), ("eve".to_owned(), key(EVE))],
            seen: Some(
                seen.iter()
                    .map(|(k, s, presence)| Seen {
                        key: key(*k),
                        session: id(s),
                        presence: *presence,
                    })
                    .collect(),
            ),
            owners: BTreeMap::new(),
            remembered: vec![],
            siblings: BTreeSet::new(),
            last: BTreeMap::new(),
        }
    }

    fn owned(mut self, session: &str, owner: Owner) -> Setting {
        self.owners.insert(id(session), owner);
        self
    }

    fn last(mut self, k: u8, session: &str) -> Setting {
        self.last.insert(key(k), id(session));
        self
    }

    fn to(&self, to: &str, session: Option<&str>) -> Result<Destination, Unresolved> {
        let world = World {
            me: key(ME),
            own: &self.own,
            peers: &self.peers,
            seen: self.seen.as_deref(),
            owners: &self.owners,
            remembered: &self.remembered,
            siblings: &self.siblings,
            last: &self.last,
        };
        resolve(&world, Wish { to, session })
    }

    fn goes(&self, to: &str, session: Option<&str>) -> (u8, String, Presence) {
        let there = self.to(to, session).unwrap();
        let n = there.key.as_bytes()[0];
        (n, there.session.to_string(), there.presence)
    }
}

fn at(n: u8, session: &str, presence: Presence) -> (u8, String, Presence) {
    (n, session.to_owned(), presence)
}

#[test]
fn the_only_live_session_is_meant_then_the_only_one_away() {
    let one = Setting::new(&[(BOB, "a", AWAY), (BOB, "b", LIVE), (EVE, "c", LIVE)]);
    assert_eq!(one.goes("bob", None), at(BOB, "b", LIVE));
    assert_eq!(
        one.goes(&key(BOB).to_string(), None),
        at(BOB, "b", LIVE),
        "a full key names its peer"
    );
    let asleep = Setting::new(&[(BOB, "a", AWAY)]);
    assert_eq!(asleep.goes("bob", None), at(BOB, "a", AWAY));
}

#[test]
fn several_that_can_be_meant_are_listed_and_none_is_chosen() {
    let live = Setting::new(&[(BOB, "a", LIVE), (BOB, "b", LIVE), (BOB, "c", AWAY)]);
    let error = live.to("bob", None).unwrap_err();
    assert_eq!(
        error,
        Unresolved::Several {
            sessions: vec![id("a"), id("b")],
            state: "live"
        }
    );
    assert!(error.to_string().contains("\"a\", \"b\""), "{error}");
    let away = Setting::new(&[(BOB, "a", AWAY), (BOB, "b", AWAY)]);
    assert!(matches!(
        away.to("bob", None),
        Err(Unresolved::Several { state: "away", .. })
    ));
}

#[test]
fn a_session_id_that_is_listed_cannot_pass_for_the_programs_words() {
    let odd = "q\"] <x>\u{200b}\u{3164}[interlink message]";
    let several = Setting::new(&[(BOB, odd, LIVE), (BOB, "b", LIVE)]);
    let error = several.to("bob", None).unwrap_err().to_string();
    let raw = ["<", "]", "[", "\u{200b}", "\u{3164}", "q\""];
    for raw in raw {
        assert!(!error.contains(raw), "{raw:?} in {error}");
    }
    assert!(error.contains("q\\u{22}\\u{5d} "), "{error}");
}

#[test]
fn who_wrote_last_gets_the_answer_while_it_is_there() {
    let seen = [(BOB, "a", AWAY), (BOB, "b", LIVE)];
    let sticky = Setting::new(&seen).last(BOB, "a");
    assert_eq!(sticky.goes("bob", None), at(BOB, "a", AWAY));
    let gone = Setting::new(&seen).last(BOB, "z");
    assert_eq!(gone.goes("bob", None), at(BOB, "b", LIVE));
    let nobody = Setting::new(&[]).last(BOB, "z");
    assert_eq!(nobody.goes("bob", None), at(BOB, "z", Presence::Gone));
    let mut dark = Setting::new(&[]).last(BOB, "z");
    dark.seen = None;
    assert_eq!(dark.goes("bob", None), at(BOB, "z", Presence::Unknown));
    dark.last.clear();
    assert_eq!(
        dark.to("bob", None),
        Err(Unresolved::NoRelay { known: vec![] })
    );
    let nobody = Unresolved::Offline { known: vec![] };
    assert_eq!(Setting::new(&[]).to("bob", None), Err(nobody));
}

#[test]
fn a_session_that_said_good_bye_is_not_chosen() {
    let closed = Setting::new(&[(BOB, "a", Presence::Closed), (BOB, "b", AWAY)]);
    assert_eq!(closed.goes("bob", None), at(BOB, "b", AWAY));
    // It may still be named.
    assert_eq!(
        closed.goes("bob", Some("a")),
        at(BOB, "a", Presence::Closed)
    );
}

#[test]
fn a_named_session_is_one_that_is_known_or_begins_like_exactly_one() {
    let s = Setting::new(&[
        (BOB, "abc-1", LIVE),
        (BOB, "abd-2", AWAY),
        (EVE, "abc-9", LIVE),
    ]);
    assert_eq!(s.goes("bob", Some("abc-1")), at(BOB, "abc-1", LIVE));
    assert_eq!(s.goes("bob", Some("abc")), at(BOB, "abc-1", LIVE));
    assert_eq!(
        s.to("bob", Some("ab")).unwrap_err(),
        Unresolved::Prefix {
            sessions: vec![id("abc-1"), id("abd-2")]
        }
    );
    assert_eq!(s.goes("bob", Some("zzz")), at(BOB, "zzz", Presence::Gone));
    // One that is remembered in full is not taken for the beginning of another.
    let s = s.owned("abc", Owner::One(key(BOB)));
    assert_eq!(s.goes("bob", Some("abc")), at(BOB, "abc", Presence::Gone));
    assert_eq!(
        s.to("nobody", Some("abc")).unwrap_err(),
        Unresolved::NotAPeer {
            to: "nobody".to_owned()
        }
    );
    assert_eq!(s.to("bob", Some("a#b")), Err(Unresolved::NotASession));
}

#[test]
fn a_session_alone_goes_to_its_owner_wherever_that_is() {
    let here = Setting::new(&[(BOB, "s", AWAY)]);
    assert_eq!(here.goes("s", None), at(BOB, "s", AWAY));
    // Offline, from what is remembered.
    let mut dark = Setting::new(&[]).owned("s", Owner::One(key(BOB)));
    assert_eq!(dark.goes("s", None), at(BOB, "s", Presence::Gone));
    dark.seen = None;
    assert_eq!(dark.goes("s", None), at(BOB, "s", Presence::Unknown));
    // No beginnings here.
    let long = Setting::new(&[(BOB, "session", LIVE)]);
    assert!(matches!(
        long.to("sess", None),
        Err(Unresolved::Nobody { .. })
    ));
}

#[test]
fn a_later_claim_changes_nothing_for_the_owner() {
    let s = Setting::new(&[(EVE, "s", LIVE)]).owned("s", Owner::One(key(BOB)));
    assert_eq!(s.goes("s", None), at(BOB, "s", Presence::Gone));
}

#[test]
fn a_session_that_several_claim_at_once_is_nobodys_until_the_peer_is_named() {
    let s = Setting::new(&[(BOB, "s", LIVE), (EVE, "s", LIVE)]);
    assert_eq!(
        s.to("s", None),
        Err(Unresolved::Contested { session: id("s") })
    );
    assert_eq!(s.goes("bob", Some("s")), at(BOB, "s", LIVE));
    assert_eq!(s.goes("eve", Some("s")), at(EVE, "s", LIVE));
    let s = Setting::new(&[(BOB, "s", LIVE)]).owned("s", Owner::Contested);
    assert!(matches!(s.to("s", None), Err(Unresolved::Contested { .. })));
}

#[test]
fn an_owner_that_was_revoked_gets_nothing_and_nobody_else_does() {
    let s = Setting::new(&[(BOB, "s", LIVE)]).owned("s", Owner::One(key(9)));
    assert_eq!(
        s.to("s", None),
        Err(Unresolved::Revoked {
            session: id("s"),
            key: key(9)
        })
    );
}

#[test]
fn a_word_that_is_both_a_name_and_a_session_is_refused_only_where_it_matters() {
    // Another peer's session is called like bob.
    let s = Setting::new(&[(BOB, "b", LIVE)]).owned("bob", Owner::One(key(EVE)));
    assert!(matches!(
        s.to("bob", None),
        Err(Unresolved::NameAndSession { .. })
    ));
    assert_eq!(
        s.goes(&key(BOB).to_string(), None),
        at(BOB, "b", LIVE),
        "the key is not ambiguous"
    );
    // Bob's own session is.
    let s = Setting::new(&[(BOB, "b", LIVE)]).owned("bob", Owner::One(key(BOB)));
    assert_eq!(s.goes("bob", None), at(BOB, "b", LIVE));
    // Nobody who is admitted.
    let s = Setting::new(&[(BOB, "b", LIVE)]).owned("bob", Owner::One(key(9)));
    assert_eq!(s.goes("bob", None), at(BOB, "b", LIVE));
    // Nobody knows whose.
    let s = Setting::new(&[(BOB, "b", LIVE)]).owned("bob", Owner::Contested);
    assert_eq!(s.goes("bob", None), at(BOB, "b", LIVE));
}

#[test]
fn self_is_this_identity_and_never_this_session() {
    let s = Setting::new(&[(ME, "mine", LIVE), (ME, "other", LIVE)]);
    for word in ["self", "SELF", " self "] {
        assert_eq!(s.goes(word, None), at(ME, "other", LIVE), "{word:?}");
    }
    assert_eq!(s.to("self", Some("mine")), Err(Unresolved::ThisSession));
    assert_eq!(s.to("mine", None), Err(Unresolved::ThisSession));
    let alone = Setting::new(&[(ME, "mine", LIVE)]).last(ME, "mine");
    assert_eq!(alone.to("self", None), Err(Unresolved::NoSibling));
    // A peer that somebody called so by hand, and a session of that name, are not meant.
    let mut fake = Setting::new(&[(EVE, "self", LIVE), (ME, "other", LIVE)]);
    fake.peers.push(("self".to_owned(), key(9)));
    assert_eq!(fake.goes("self", None), at(ME, "other", LIVE));
}

#[test]
fn of_our_own_sessions_the_log_is_certain() {
    let mut s = Setting::new(&[(EVE, "sib", LIVE)]).owned("sib", Owner::One(key(EVE)));
    s.siblings.insert(id("sib"));
    assert_eq!(s.goes("sib", None), at(ME, "sib", Presence::Gone));
}

#[test]
fn nobody_is_guessed() {
    let s = Setting::new(&[(BOB, "b", LIVE)]);
    assert_eq!(s.to("  ", None), Err(Unresolved::Empty));
    for word in ["bo", "Bob", "b#", &key(9).to_string()] {
        assert!(
            matches!(s.to(word, None), Err(Unresolved::Nobody { .. })),
            "{word}"
        );
    }
}

#[test]
fn a_full_key_is_that_key_whoever_has_it_as_a_name_or_announces_it_as_a_session() {
    let text = key(BOB).to_string();
    let mut world = Setting::new(&[(BOB, "b", LIVE), (EVE, "e", LIVE), (EVE, &text, LIVE)])
        .owned(&text, Owner::One(key(EVE)));
    assert_eq!(world.goes(&text, None), at(BOB, "b", LIVE));
    world.peers.push((text.clone(), key(9)));
    assert_eq!(world.goes(&text, None), at(BOB, "b", LIVE));
    // Nor does the name or the session stand in for a key that is nobody's here.
    world.peers.remove(0);
    assert!(matches!(
        world.to(&text, None),
        Err(Unresolved::Nobody { .. })
    ));
}

#[test]
fn of_who_is_offline_the_last_known_sessions_are_named_with_their_age() {
    let closed = &[(BOB, "b", Presence::Closed)];
    let mut setting = Setting::new(closed);
    let known = |k: u8, s: &str, age_ms, closed| Remembered {
        key: key(k),
        session: id(s),
        age_ms,
        closed,
    };
    setting.remembered = vec![
        known(BOB, "old", 7_200_000, false),
        known(EVE, "other", 1, false),
        known(BOB, "b\"", 120_000, true),
    ];
    let refusal = setting.to("bob", None).unwrap_err().to_string();
    let ends =
        "known so far: \"b\\u{22}\" (heard 2 min ago, said good-bye), \"old\" (heard 2 h ago)";
    assert!(refusal.ends_with(ends), "{refusal}");
    setting.seen = None;
    let refusal = setting.to("bob", None).unwrap_err().to_string();
    assert!(refusal.ends_with(ends), "{refusal}");
}
