//! How many requests came from one network address.
//!
//! Off unless asked for: several clients may share an address. IPv6 counts by /64, which is what
//! one customer gets at least.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

use crate::types::limit::MAX_RELAY_ADDRESSES;
use crate::types::time::UnixMillis;

const WINDOW_MS: u64 = 60_000;

pub(super) struct Addresses {
    max: usize,
    seen: Mutex<HashMap<IpAddr, VecDeque<UnixMillis>>>,
}

impl Addresses {
    pub(super) fn new(max: usize) -> Addresses {
        Addresses {
            max,
            seen: Mutex::new(HashMap::new()),
        }
    }

    /// Counts a request, or says in how many milliseconds the next one is let through.
    pub(super) fn admit(&self, from: IpAddr, now: UnixMillis) -> Result<(), u64> {
        if self.max == 0 {
            return Ok(());
        }
        let from = network(from);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if !seen.contains_key(&from) && seen.len() >= MAX_RELAY_ADDRESSES {
            seen.retain(|_, stamps| stamps.back().is_some_and(|at| now.since(*at) < WINDOW_MS));
            if seen.len() >= MAX_RELAY_ADDRESSES {
                let longest = seen.iter().min_by_key(|(_, stamps)| stamps.back().copied());
                if let Some(longest) = longest.map(|(from, _)| *from) {
                    seen.remove(&longest);
                }
            }
        }
        let stamps = seen.entry(from).or_default();
        while stamps.front().is_some_and(|at| now.since(*at) >= WINDOW_MS) {
            stamps.pop_front();
        }
        match stamps.front().filter(|_| stamps.len() >= self.max) {
            Some(oldest) => Err(oldest.plus(WINDOW_MS).since(now)),
            None => {
                stamps.push_back(now);
                Ok(())
            }
        }
    }
}

fn network(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gets_its_share_of_each_minute_and_no_other_pays_for_it() {
        let addresses = Addresses::new(3);
        let [a, b]: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|a| a.parse().unwrap());
        for at in [0, 10, 20] {
            addresses.admit(a, UnixMillis(at)).unwrap();
        }
        assert_eq!(addresses.admit(a, UnixMillis(30)), Err(59_970));
        addresses.admit(b, UnixMillis(30)).unwrap();
        addresses.admit(a, UnixMillis(60_000)).unwrap();
        assert_eq!(addresses.admit(a, UnixMillis(60_001)), Err(9));
    }

    #[test]
    fn a_customer_of_ipv6_is_one_address_and_memory_is_bounded() {
        let addresses = Addresses::new(1);
        let [a, b]: [IpAddr; 2] = ["2001:db8::1", "2001:db8::ffff:2"].map(|a| a.parse().unwrap());
        addresses.admit(a, UnixMillis(0)).unwrap();
        assert!(addresses.admit(b, UnixMillis(0)).is_err());
        for n in 0..u32::try_from(MAX_RELAY_ADDRESSES).unwrap() * 2 {
            let from = IpAddr::V4(n.into());
            addresses.admit(from, UnixMillis(u64::from(n))).unwrap();
        }
        assert!(addresses.seen.lock().unwrap().len() <= MAX_RELAY_ADDRESSES);
    }

    #[test]
    fn zero_is_no_limit() {
        let addresses = Addresses::new(0);
        for _ in 0..10 {
            addresses
                .admit([127, 0, 0, 1].into(), UnixMillis(0))
                .unwrap();
        }
    }
}
