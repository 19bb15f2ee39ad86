//! What a record holds: a byte for its kind, then the rest.

use serde::{Deserialize, Serialize};

use crate::types::secret::Secret;

/// What a data record holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Body {
    Chat(String),
    Offer(Offered),
    Answer(Answer),
    Chunk {
        number: u32,
        offset: u64,
        bytes: Vec<u8>,
    },
    Outcome(Outcome),
    Withdraw(Withdraw),
    Pin(Vec<u8>),
    Unknown,
}

/// A file that its sender offers. Its number counts the offers of its sender.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Offered {
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) sha256: String,
    pub(super) note: String,
}

/// Whether an offered file is taken; `false` also stops one that moves.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) number: u32,
    pub(super) take: bool,
}

/// How it ended for the receiver.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) number: u32,
    pub(super) whole: bool,
}

/// The sender takes an offer back.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Withdraw {
    pub(super) number: u32,
}

impl Body {
    pub(super) fn write(&self) -> Option<Secret<Vec<u8>>> {
        let mut out = Secret::new(Vec::new());
        let to = out.expose_mut();
        match self {
            Body::Chat(text) => {
                to.push(1);
                to.extend_from_slice(text.as_bytes());
            }
            Body::Offer(offer) => json(2, offer, to)?,
            Body::Answer(answer) => json(3, answer, to)?,
            Body::Chunk {
                number,
                offset,
                bytes,
            } => {
                to.reserve_exact(bytes.len().saturating_add(16));
                to.push(4);
                to.extend_from_slice(&number.to_be_bytes());
                to.extend_from_slice(&offset.to_be_bytes());
                to.extend_from_slice(bytes);
            }
            Body::Outcome(outcome) => json(5, outcome, to)?,
            Body::Withdraw(withdraw) => json(6, withdraw, to)?,
            Body::Pin(bytes) => {
                to.push(7);
                to.extend_from_slice(bytes);
            }
            Body::Unknown => return None,
        }
        Some(out)
    }

    /// `None` for what is not what its kind says.
    pub(super) fn read(bytes: &[u8]) -> Option<Body> {
        let (kind, rest) = bytes.split_first()?;
        Some(match kind {
            1 => Body::Chat(std::str::from_utf8(rest).ok()?.to_owned()),
            2 => Body::Offer(serde_json::from_slice(rest).ok()?),
            3 => Body::Answer(serde_json::from_slice(rest).ok()?),
            4 => {
                let (number, rest) = rest.split_first_chunk()?;
                let (offset, rest) = rest.split_first_chunk()?;
                Body::Chunk {
                    number: u32::from_be_bytes(*number),
                    offset: u64::from_be_bytes(*offset),
                    bytes: rest.to_vec(),
                }
            }
            5 => Body::Outcome(serde_json::from_slice(rest).ok()?),
            6 => Body::Withdraw(serde_json::from_slice(rest).ok()?),
            7 => Body::Pin(rest.to_vec()),
            _ => Body::Unknown,
        })
    }
}

fn json(kind: u8, value: &impl Serialize, to: &mut Vec<u8>) -> Option<()> {
    to.push(kind);
    serde_json::to_writer(to, value).ok()
}

/// What a control record holds: always all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Control {
    /// The sender has ended the session.
    pub(super) bye: bool,
    /// The number of the next data record that the sender wants.
    pub(super) wants: u64,
    /// Which of the 64 after it came already, the lowest bit for the first.
    pub(super) has: u64,
    /// How many data records the sender has numbered.
    pub(super) sent: u64,
}

impl Control {
    pub(super) fn write(&self) -> Vec<u8> {
        let mut out = vec![u8::from(self.bye)];
        for number in [self.wants, self.has, self.sent] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out
    }

    /// More bytes may follow: for what comes after this version.
    pub(super) fn read(bytes: &[u8]) -> Option<Control> {
        let (bye, rest) = bytes.split_first()?;
        let (wants, rest) = rest.split_first_chunk()?;
        let (has, rest) = rest.split_first_chunk()?;
        let (sent, _) = rest.split_first_chunk()?;
        Some(Control {
            bye: match bye {
                0 => false,
                1 => true,
                _ => return None,
            },
            wants: u64::from_be_bytes(*wants),
            has: u64::from_be_bytes(*has),
            sent: u64::from_be_bytes(*sent),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_read_back() {
        for body in [
            Body::Chat("gr\u{fc}\u{df} \u{1f600}".to_owned()),
            Body::Offer(Offered {
                number: 3,
                name: "a.bin".to_owned(),
                size: u64::MAX,
                sha256: "00".repeat(32),
                note: String::new(),
            }),
            Body::Answer(Answer {
                number: 3,
                take: true,
            }),
            Body::Chunk {
                number: u32::MAX,
                offset: 1 << 40,
                bytes: vec![0, 255, 128],
            },
            Body::Outcome(Outcome {
                number: 0,
                whole: false,
            }),
            Body::Withdraw(Withdraw { number: 9 }),
            Body::Pin(vec![1, 2]),
        ] {
            let written = body.write().unwrap();
            assert_eq!(Body::read(written.expose()), Some(body));
        }
        assert_eq!(Body::read(&[200, 1]), Some(Body::Unknown));
        for bad in [&[][..], &[1, 0xff], &[2, b'{'], &[4, 0, 0, 0, 0, 1]] {
            assert_eq!(Body::read(bad), None, "{bad:?}");
        }
        let control = Control {
            bye: true,
            wants: 7,
            has: 5,
            sent: u64::MAX,
        };
        assert_eq!(Control::read(&control.write()), Some(control));
        assert_eq!(Control::read(&control.write()[..24]), None);
        assert_eq!(Control::read(&[2; 25]), None);
    }
}
