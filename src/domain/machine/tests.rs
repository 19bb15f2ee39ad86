use super::notice::{NextNotice, Notice, NoticePhase, Waiting, next, turn};
use super::outbox::{MAX_BACKOFF_MS, RelayGate, RelayHealth, backoff_ms, is_due};
use crate::event::agent::NoticePath;
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

const T: u64 = 1_800_000_000_000;

fn notice(phase: NoticePhase, attempt: u32, offers: u32, due: u64) -> Notice {
    Notice {
        phase,
        observed: false,
        covered: Seq(5),
        attempt,
        path: NoticePath::Channel,
        offers,
        due: UnixMillis(T + due),
    }
}

#[test]
fn the_schedule_of_notices() {
    use NoticePhase::{Accepted, Failed, Reserved};
    let observed = Notice {
        observed: true,
        ..notice(Accepted, 1, 1, 0)
    };
    let mail = |newest| Waiting {
        attention: 1,
        news: 0,
        newest: Seq(newest),
    };
    let none = Waiting::default();
    let wait = |due| NextNotice::Wait {
        until: UnixMillis(T + due),
    };
    let again = |attempt| NextNotice::Again { attempt };
    let cases = [
        ("nothing waits", None, none, 0, NextNotice::Idle),
        ("first mail", None, mail(5), 0, NextNotice::New),
        (
            "hand-off under way",
            Some(notice(Reserved, 1, 0, 30_000)),
            mail(6),
            29_999,
            wait(30_000),
        ),
        (
            "hand-off never ended",
            Some(notice(Reserved, 1, 0, 30_000)),
            mail(5),
            30_000,
            again(2),
        ),
        (
            "failed, too early",
            Some(notice(Failed, 3, 0, 120_000)),
            mail(5),
            1,
            wait(120_000),
        ),
        (
            "failed, due",
            Some(notice(Failed, 3, 0, 120_000)),
            mail(5),
            120_000,
            again(4),
        ),
        (
            "failed often, due",
            Some(notice(Failed, 99, 0, 300_000)),
            mail(5),
            300_000,
            again(100),
        ),
        (
            "failed, clock jumped back",
            Some(notice(Failed, 9, 0, 300_001)),
            mail(5),
            0,
            again(10),
        ),
        (
            "accepted, coalesces",
            Some(notice(Accepted, 1, 1, 300_000)),
            mail(9),
            1,
            wait(300_000),
        ),
        (
            "accepted, unanswered",
            Some(notice(Accepted, 4, 1, 300_000)),
            mail(5),
            300_000,
            again(1),
        ),
        (
            "offered twice",
            Some(notice(Accepted, 1, 2, 1_800_000)),
            mail(5),
            300_000,
            wait(1_800_000),
        ),
        (
            "offered twice, due",
            Some(notice(Accepted, 1, 2, 1_800_000)),
            mail(5),
            1_800_000,
            again(1),
        ),
        (
            "accepted, all read",
            Some(notice(Accepted, 1, 1, 300_000)),
            none,
            300_000,
            NextNotice::Idle,
        ),
        (
            "followed up",
            Some(observed),
            mail(5),
            9_999_999,
            NextNotice::Idle,
        ),
        (
            "followed up, newer mail",
            Some(observed),
            mail(6),
            0,
            NextNotice::New,
        ),
    ];
    for (name, notice, waiting, after, want) in cases {
        let got = next(notice.as_ref(), waiting, UnixMillis(T + after));
        assert_eq!(got, want, "{name}");
    }
}

#[test]
fn hand_offs_are_retried_after_30_60_120_240_300_seconds() {
    let waits: Vec<u64> = (0..8).map(|n| super::notice::retry_ms(n) / 1000).collect();
    assert_eq!(waits, [30, 30, 60, 120, 240, 300, 300, 300]);
    assert_eq!(super::notice::retry_ms(u32::MAX), 300_000);
}

#[test]
fn a_relays_backoff_doubles_from_one_to_sixty_seconds_and_jitter_only_lengthens_it() {
    let waits: Vec<u64> = (0..9).map(|n| backoff_ms(n, 0) / 1000).collect();
    assert_eq!(waits, [1, 1, 2, 4, 8, 16, 32, 60, 60]);
    assert_eq!(backoff_ms(1, u32::MAX), 1250);
    assert_eq!(backoff_ms(u32::MAX, u32::MAX), MAX_BACKOFF_MS);
}

#[test]
fn a_relay_that_is_down_is_probed_and_opens_at_once_when_it_answers() {
    let at = |ms| UnixMillis(T + ms);
    let mut relay = RelayHealth::new();
    assert_eq!(relay.gate(at(0)), RelayGate::Open);
    assert_eq!(relay.failed(at(0), 0), at(1000));
    assert_eq!(relay.gate(at(999)), RelayGate::Closed { until: at(1000) });
    assert_eq!(relay.gate(at(1000)), RelayGate::Probe);
    assert_eq!(relay.failed(at(1000), 0), at(3000));
    assert_eq!(relay.failures(), 2);
    assert!(relay.answered());
    assert_eq!(relay.gate(at(1001)), RelayGate::Open);
    assert!(!relay.answered());
}

#[test]
fn a_due_time_under_another_clock_has_passed() {
    let now = UnixMillis(T);
    assert!(is_due(now, now));
    assert!(!is_due(now.plus(MAX_BACKOFF_MS), now));
    assert!(is_due(now.plus(MAX_BACKOFF_MS + 1), now));
}

#[test]
fn one_way_at_a_time_round_and_round_and_the_proven_one_first() {
    use NoticePath::{Channel, Listener, Socket};
    use NoticePhase::{Accepted, Failed};
    let ways = [Channel, Socket, Listener];
    let by = |path, phase| Notice {
        path,
        ..notice(phase, 1, 1, 0)
    };
    assert_eq!(turn(&[], None, None), None);
    assert_eq!(turn(&ways, None, None), Some(Channel));
    assert_eq!(turn(&ways, Some(Socket), None), Some(Socket));
    // A way that is closed proves nothing.
    assert_eq!(turn(&ways[..1], Some(Socket), None), Some(Channel));
    for phase in [Accepted, Failed] {
        for (last, then) in [(Channel, Socket), (Socket, Listener), (Listener, Channel)] {
            assert_eq!(
                turn(&ways, Some(Channel), Some(&by(last, phase))),
                Some(then)
            );
        }
        // Nowhere else to go.
        assert_eq!(
            turn(&[Socket], None, Some(&by(Socket, phase))),
            Some(Socket)
        );
        assert_eq!(
            turn(&[Socket], None, Some(&by(Listener, phase))),
            Some(Socket)
        );
    }
    let done = Notice {
        observed: true,
        ..by(Channel, Accepted)
    };
    assert_eq!(turn(&ways, Some(Listener), Some(&done)), Some(Listener));
}

#[test]
fn what_stands_in_the_hosts_own_queue_is_not_queued_again_soon() {
    let queued = Notice {
        path: NoticePath::HostQueue,
        ..notice(NoticePhase::Accepted, 1, 1, 6 * 3_600_000)
    };
    let mail = Waiting {
        attention: 1,
        news: 0,
        newest: Seq(9),
    };
    let later = |ms| UnixMillis(T + ms);
    let hours = 3_600_000;
    assert!(matches!(
        next(Some(&queued), mail, later(5 * hours)),
        NextNotice::Wait { .. }
    ));
    assert_eq!(
        next(Some(&queued), mail, later(6 * hours)),
        NextNotice::Again { attempt: 1 }
    );
}
