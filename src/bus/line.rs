//! A connection that knows whether half a request waits on it.
//!
//! At the end of the bus a request that is being answered gets its answer. One whose head has not
//! arrived whole was never accepted: to wait for the rest would only hold the end up, for as long
//! as its sender likes. HTTP itself does not tell the two apart from outside, the bytes do.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// What both ends of the server know of one connection.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Whether bytes came since the last request began or ended.
    fresh: AtomicBool,
    /// Whether a request is being answered.
    busy: AtomicBool,
}

/// A request that is being answered, until it is dropped.
pub(super) struct Answering(Arc<Progress>);

impl Progress {
    /// A request has arrived as far as its head.
    pub(super) fn begin(self: &Arc<Self>) -> Answering {
        self.busy.store(true, Ordering::Release);
        self.fresh.store(false, Ordering::Release);
        Answering(Arc::clone(self))
    }

    /// Whether the head of a request has begun to arrive and nothing is being answered.
    pub(super) fn is_half_sent(&self) -> bool {
        self.fresh.load(Ordering::Acquire) && !self.busy.load(Ordering::Acquire)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        // What came meanwhile was its body.
        self.0.fresh.store(false, Ordering::Release);
        self.0.busy.store(false, Ordering::Release);
    }
}

/// A stream that notes what it reads.
pub(super) struct Line {
    stream: TcpStream,
    progress: Arc<Progress>,
}

impl Line {
    pub(super) fn new(stream: TcpStream, progress: Arc<Progress>) -> Line {
        Line { stream, progress }
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let done = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.progress.fresh.store(true, Ordering::Release);
        }
        done
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_head_without_an_answer_under_way_is_half_sent() {
        let progress = Arc::new(Progress::default());
        assert!(!progress.is_half_sent());
        progress.fresh.store(true, Ordering::Release);
        assert!(progress.is_half_sent());
        let answering = progress.begin();
        assert!(!progress.is_half_sent());
        progress.fresh.store(true, Ordering::Release);
        assert!(!progress.is_half_sent(), "its body");
        drop(answering);
        assert!(!progress.is_half_sent());
    }
}
