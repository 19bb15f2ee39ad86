//! The bytes of one record in the log (`schema/log-frame.md`).
//!
//! A frame stands alone: it can be found and checked in a raw file without the B-tree around it,
//! which is what makes a damaged store repairable. All integers are little endian.
//!
//! ```text
//! offset size field
//!      0    4 magic            "ilg" 0x01
//!      4    1 frame version    1
//!      5    2 event kind       stable number, never reused
//!      7    1 event version    version of the payload's shape
//!      8    8 seq              position in the log
//!     16    8 recorded_at      Unix ms, wall clock of the writer
//!     24    4 payload length
//!     28    n payload
//!   28+n    4 CRC-32 (IEEE) over bytes 0 .. 28+n
//! ```

use crate::types::limit::MAX_EVENT_BYTES;
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// First bytes of every frame: a name that does not occur in text, and no NUL.
pub const MAGIC: [u8; 4] = *b"ilg\x01";

/// The only frame version so far.
pub const FRAME_VERSION: u8 = 1;

/// Bytes before the payload.
pub const HEADER_BYTES: usize = 28;

/// Bytes around the payload.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + 4;

/// A parsed frame, borrowing its payload. The checksum has been verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Stable number of the event's kind.
    pub kind: u16,
    /// Version of the payload's shape.
    pub version: u8,
    /// Position in the log.
    pub seq: Seq,
    /// Wall clock of the writer.
    pub recorded_at: UnixMillis,
    /// Encoded event.
    pub payload: &'a [u8],
}

/// A frame could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Fewer bytes than a frame needs.
    #[error("frame is cut short: {have} bytes, {need} needed")]
    Truncated {
        /// Bytes given.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// The first four bytes are not those of a frame.
    #[error("not a frame: wrong magic")]
    Magic,
    /// A frame version that this program does not know.
    #[error(
        "frame version {found} was written by a newer interlink (this one reads {FRAME_VERSION})"
    )]
    Version {
        /// Version found.
        found: u8,
    },
    /// A payload length beyond the limit.
    #[error("payload length {len} exceeds {MAX_EVENT_BYTES}")]
    PayloadTooLarge {
        /// Length found.
        len: usize,
    },
    /// Bytes after the frame where there must be none.
    #[error("{extra} bytes after the frame")]
    TrailingBytes {
        /// Bytes too many.
        extra: usize,
    },
    /// The checksum does not match.
    #[error("frame checksum mismatch: stored {stored:08x}, computed {computed:08x}")]
    Checksum {
        /// Checksum in the frame.
        stored: u32,
        /// Checksum of the bytes.
        computed: u32,
    },
    /// The frame carries another position than the row it was found in.
    #[error("frame of position {found} stands at position {expected}")]
    Misplaced {
        /// Position of the row.
        expected: Seq,
        /// Position in the frame.
        found: Seq,
    },
}

/// Appends the bytes of a frame to `out`.
///
/// # Errors
///
/// [`FrameError::PayloadTooLarge`]; nothing is appended then.
pub fn encode(frame: &Frame<'_>, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let len = frame.payload.len();
    if len > MAX_EVENT_BYTES {
        return Err(FrameError::PayloadTooLarge { len });
    }
    let len32 = u32::try_from(len).map_err(|_| FrameError::PayloadTooLarge { len })?;
    let start = out.len();
    out.reserve(OVERHEAD_BYTES + len);
    out.extend_from_slice(&MAGIC);
    out.push(FRAME_VERSION);
    out.extend_from_slice(&frame.kind.to_le_bytes());
    out.push(frame.version);
    out.extend_from_slice(&frame.seq.0.to_le_bytes());
    out.extend_from_slice(&frame.recorded_at.0.to_le_bytes());
    out.extend_from_slice(&len32.to_le_bytes());
    out.extend_from_slice(frame.payload);
    let crc = crc32fast::hash(out.get(start..).unwrap_or_default());
    out.extend_from_slice(&crc.to_le_bytes());
    Ok(())
}

/// Reads one frame from the front of `bytes`; returns it and its length.
///
/// # Errors
///
/// Every defect is a [`FrameError`]; no input panics.
pub fn parse_prefix(bytes: &[u8]) -> Result<(Frame<'_>, usize), FrameError> {
    let truncated = |need| FrameError::Truncated {
        have: bytes.len(),
        need,
    };
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        if !MAGIC.starts_with(bytes.get(..4).unwrap_or(bytes)) {
            return Err(FrameError::Magic);
        }
        return Err(truncated(OVERHEAD_BYTES));
    };
    let [m0, m1, m2, m3, frame_version, k0, k1, version, tail @ ..] = *header;
    if [m0, m1, m2, m3] != MAGIC {
        return Err(FrameError::Magic);
    }
    if frame_version != FRAME_VERSION {
        return Err(FrameError::Version {
            found: frame_version,
        });
    }
    let [s0, s1, s2, s3, s4, s5, s6, s7, tail @ ..] = tail;
    let [t0, t1, t2, t3, t4, t5, t6, t7, l0, l1, l2, l3] = tail;
    let len = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if len > MAX_EVENT_BYTES {
        return Err(FrameError::PayloadTooLarge { len });
    }
    let total = OVERHEAD_BYTES + len;
    let payload = rest.get(..len).ok_or(truncated(total))?;
    let stored = rest
        .get(len..)
        .and_then(|r| r.first_chunk::<4>())
        .map(|b| u32::from_le_bytes(*b))
        .ok_or(truncated(total))?;
    let computed = crc32fast::hash(bytes.get(..HEADER_BYTES + len).unwrap_or_default());
    if stored != computed {
        return Err(FrameError::Checksum { stored, computed });
    }
    let frame = Frame {
        kind: u16::from_le_bytes([k0, k1]),
        version,
        seq: Seq(u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7])),
        recorded_at: UnixMillis(u64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7])),
        payload,
    };
    Ok((frame, total))
}

/// Reads a frame that must fill `bytes` and stand at position `seq`.
///
/// # Errors
///
/// As [`parse_prefix`]; also [`FrameError::TrailingBytes`] and [`FrameError::Misplaced`].
pub fn parse_at(seq: Seq, bytes: &[u8]) -> Result<Frame<'_>, FrameError> {
    let (frame, total) = parse_prefix(bytes)?;
    if total != bytes.len() {
        return Err(FrameError::TrailingBytes {
            extra: bytes.len() - total,
        });
    }
    if frame.seq != seq {
        return Err(FrameError::Misplaced {
            expected: seq,
            found: frame.seq,
        });
    }
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Vec<u8>, Vec<u8>) {
        let payload = b"payload bytes".to_vec();
        let mut out = Vec::new();
        let frame = Frame {
            kind: 0x0102,
            version: 3,
            seq: Seq(9),
            recorded_at: UnixMillis(1_700_000_000_000),
            payload: &payload,
        };
        encode(&frame, &mut out).unwrap();
        (out, payload)
    }

    #[test]
    fn round_trip_and_exact_layout() {
        let (bytes, payload) = sample();
        assert_eq!(&bytes[..8], b"ilg\x01\x01\x02\x01\x03");
        assert_eq!(bytes.len(), OVERHEAD_BYTES + payload.len());
        let frame = parse_at(Seq(9), &bytes).unwrap();
        assert_eq!(
            (frame.kind, frame.version, frame.payload),
            (0x0102, 3, &payload[..])
        );
        assert_eq!(frame.recorded_at, UnixMillis(1_700_000_000_000));
    }

    #[test]
    fn every_truncation_is_a_typed_error() {
        let (bytes, _) = sample();
        for cut in 0..bytes.len() {
            assert!(
                matches!(
                    parse_prefix(&bytes[..cut]),
                    Err(FrameError::Truncated { .. })
                ),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn every_flipped_bit_is_caught() {
        let (bytes, _) = sample();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << bit;
                assert!(parse_at(Seq(9), &bad).is_err(), "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn misplaced_and_trailing_frames_are_refused() {
        let (mut bytes, _) = sample();
        assert!(matches!(
            parse_at(Seq(8), &bytes),
            Err(FrameError::Misplaced { .. })
        ));
        bytes.push(0);
        assert!(matches!(
            parse_at(Seq(9), &bytes),
            Err(FrameError::TrailingBytes { extra: 1 })
        ));
    }

    #[test]
    fn a_newer_frame_version_is_refused_by_name() {
        let (mut bytes, _) = sample();
        bytes[4] = 2;
        let err = parse_prefix(&bytes).unwrap_err();
        assert!(err.to_string().contains("newer interlink"), "{err}");
    }
}
