//! Lists of a bounded length, whose items are not parsed yet: a hostile file costs its own size in
//! memory, not a multiple of it.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A list of at most `N` items.
pub(super) struct AtMost<'a, const N: usize>(pub(super) Vec<&'a RawValue>);

impl<const N: usize> Default for AtMost<'_, N> {
    fn default() -> Self {
        AtMost(vec![])
    }
}

impl<'de: 'a, 'a, const N: usize> Deserialize<'de> for AtMost<'a, N> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Items<'a, const N: usize>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a, const N: usize> Visitor<'de> for Items<'a, N> {
            type Value = Vec<&'a RawValue>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {N}")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut items = vec![];
                while let Some(item) = seq.next_element()? {
                    if items.len() == N {
                        return Err(A::Error::custom(format_args!("a list of more than {N}")));
                    }
                    items.push(item);
                }
                Ok(items)
            }
        }
        d.deserialize_seq(Items::<N>(PhantomData)).map(AtMost)
    }
}

/// An object of at most `N` members, in their order.
pub(super) struct MembersAtMost<'a, const N: usize>(pub(super) Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a, const N: usize> Deserialize<'de> for MembersAtMost<'a, N> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Members<'a, const N: usize>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a, const N: usize> Visitor<'de> for Members<'a, N> {
            type Value = Vec<(String, &'a RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an object of at most {N} members")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = vec![];
                while let Some(member) = map.next_entry()? {
                    if members.len() == N {
                        return Err(A::Error::custom(format_args!("more than {N} members")));
                    }
                    members.push(member);
                }
                Ok(members)
            }
        }
        d.deserialize_map(Members::<N>(PhantomData))
            .map(MembersAtMost)
    }
}
