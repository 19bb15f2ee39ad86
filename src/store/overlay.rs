//! A file that is read but never changed: writes stay in memory.
//!
//! Two needs, one answer. After SIGKILL the engine wants to repair a file before it reads it, and a
//! read-only command must not; and after an I/O error the engine refuses all access through the
//! failed handle, while the process should keep answering reads. Both open the file through this
//! backend: the repair happens in memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;

const BLOCK: u64 = 4096;

/// Reads `len` bytes at `offset` of the underlying file.
pub(super) trait ReadAt: Send + Sync + std::fmt::Debug + 'static {
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Fills `out`.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
}

impl ReadAt for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        #[cfg(unix)]
        {
            std::os::unix::fs::FileExt::read_exact_at(self, out, offset)
        }
        #[cfg(windows)]
        {
            let mut done = 0;
            while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
                let n = std::os::windows::fs::FileExt::seek_read(self, rest, offset + done as u64)?;
                if n == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                done += n;
            }
            Ok(())
        }
    }
}

#[cfg(feature = "testkit")]
impl ReadAt for Vec<u8> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.as_slice().len() as u64)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(out.len());
        let bytes = self.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Layer {
    blocks: BTreeMap<u64, Box<[u8]>>,
    len: u64,
    /// Bytes of the file that still show through; shrinks with `set_len`.
    visible: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Overlay<F> {
    file: F,
    layer: Mutex<Layer>,
}

impl<F: ReadAt> Overlay<F> {
    pub(super) fn new(file: F) -> io::Result<Self> {
        let len = file.len()?;
        let layer = Mutex::new(Layer {
            blocks: BTreeMap::new(),
            len,
            visible: len,
        });
        Ok(Overlay { file, layer })
    }

    fn layer(&self) -> MutexGuard<'_, Layer> {
        self.layer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn block(&self, layer: &Layer, index: u64) -> io::Result<Box<[u8]>> {
        if let Some(block) = layer.blocks.get(&index) {
            return Ok(block.clone());
        }
        let mut block = vec![0; BLOCK as usize].into_boxed_slice();
        let start = index * BLOCK;
        let have = layer.visible.saturating_sub(start).min(BLOCK);
        if let Some(head) = block.get_mut(..usize::try_from(have).unwrap_or_default()) {
            self.file.read_at(start, head)?;
        }
        Ok(block)
    }

    /// Calls `f` with each touched block's index, the offset inside it and the range of the
    /// caller's buffer.
    fn spans(
        offset: u64,
        len: usize,
        mut f: impl FnMut(u64, usize, std::ops::Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut done = 0usize;
        while done < len {
            let at = offset + done as u64;
            let inside = usize::try_from(at % BLOCK).unwrap_or_default();
            let n = (BLOCK as usize - inside).min(len - done);
            f(at / BLOCK, inside, done..done + n)?;
            done += n;
        }
        Ok(())
    }
}

impl<F: ReadAt> StorageBackend for Overlay<F> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.layer().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let layer = self.layer();
        if offset.saturating_add(out.len() as u64) > layer.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Self::spans(offset, out.len(), |index, inside, range| {
            let block = self.block(&layer, index)?;
            let from = block.get(inside..inside + range.len());
            if let (Some(to), Some(from)) = (out.get_mut(range), from) {
                to.copy_from_slice(from);
            }
            Ok(())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut layer = self.layer();
        layer.visible = layer.visible.min(len);
        layer.len = len;
        let keep = len.div_ceil(BLOCK);
        layer.blocks.split_off(&keep);
        if let Some(last) = layer.blocks.get_mut(&(len / BLOCK)) {
            let inside = usize::try_from(len % BLOCK).unwrap_or_default();
            if let Some(tail) = last.get_mut(inside..) {
                tail.fill(0);
            }
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut layer = self.layer();
        layer.len = layer.len.max(offset.saturating_add(data.len() as u64));
        Self::spans(offset, data.len(), |index, inside, range| {
            let mut block = self.block(&layer, index)?;
            let n = range.len();
            if let (Some(to), Some(from)) = (block.get_mut(inside..inside + n), data.get(range)) {
                to.copy_from_slice(from);
            }
            layer.blocks.insert(index, block);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn writes_never_reach_the_file_and_shrinking_hides_old_bytes() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 10_000]).unwrap();
        let overlay = Overlay::new(file.try_clone().unwrap()).unwrap();
        overlay.write(4090, &[1; 12]).unwrap();
        let mut out = [0; 14];
        overlay.read(4089, &mut out).unwrap();
        assert_eq!(out, [7, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 7]);
        overlay.set_len(4092).unwrap();
        overlay.set_len(10_000).unwrap();
        overlay.read(4089, &mut out).unwrap();
        assert_eq!(out, [7, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let mut original = vec![0; 10_000];
        file.read_at(0, &mut original).unwrap();
        assert!(original.iter().all(|b| *b == 7));
        assert!(overlay.read(9_999, &mut out).is_err());
    }
}
