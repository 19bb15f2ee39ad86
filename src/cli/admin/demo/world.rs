//! The processes of the demonstration, and the folder that they live in.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use super::mcp::Agent;
use super::programs::Programs;
use super::{DemoError, Patience, io_error};
use crate::cli::admin::endpoint::EndpointReader;
use crate::cli::admin::reader::StoreReader as _;
use crate::cli::paths;
use crate::crypto::sign::SigningIdentity;
use crate::keystore::{self, Existing};
use crate::types::id::PublicKey;
use crate::types::secret::Secret;

/// An identity with one session.
pub(super) struct Person {
    /// What the other one calls it, and its session.
    pub(super) name: &'static str,
    pub(super) key: PublicKey,
    folder: PathBuf,
}

impl Person {
    /// Makes an identity in a folder of its own.
    fn create(root: &Path, name: &'static str) -> Result<Person, DemoError> {
        let folder = root.join(name);
        fs::create_dir(&folder).map_err(io_error("cannot make a folder"))?;
        let mut seed = Secret::new([0u8; 32]);
        getrandom::fill(seed.expose_mut())?;
        keystore::create(&folder.join("id.key"), &seed, Existing::Keep)?;
        let key = SigningIdentity::from_seed(&seed).public();
        Ok(Person { name, key, folder })
    }

    /// Admits somebody.
    fn admit(&self, other: &Person) -> Result<(), DemoError> {
        let peers = json!({ other.name: { "key": other.key } });
        fs::write(self.folder.join("peers.json"), format!("{peers:#}\n"))
            .map_err(io_error("cannot write peers.json"))
    }

    /// Its store.
    pub(super) fn store(&self) -> PathBuf {
        self.folder.join("agent.redb")
    }

    /// Its session.
    pub(super) fn session(&self) -> String {
        format!("{}-session", self.name)
    }
}

/// Everything that the demonstration started.
pub(super) struct World<'a> {
    programs: &'a Programs,
    root: PathBuf,
    patience: Patience,
    addr: String,
    bus: Option<Child>,
    pub(super) ada: Person,
    pub(super) ben: Person,
}

impl<'a> World<'a> {
    /// Two identities that admit each other, and a free port. Nothing runs yet.
    pub(super) fn create(
        programs: &'a Programs,
        root: &Path,
        patience: &Patience,
    ) -> Result<World<'a>, DemoError> {
        let ada = Person::create(root, "ada")?;
        let ben = Person::create(root, "ben")?;
        ada.admit(&ben)?;
        ben.admit(&ada)?;
        // The bus comes back at the same address after its death, so the system cannot choose one
        // each time.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.local_addr())
            .map_err(io_error("cannot find a free port"))?;
        Ok(World {
            programs,
            root: root.to_owned(),
            patience: patience.clone(),
            addr: port.to_string(),
            bus: None,
            ada,
            ben,
        })
    }

    /// The bus's store.
    pub(super) fn bus_store(&self) -> PathBuf {
        self.root.join("bus.redb")
    }

    /// A program that knows nothing of this one's environment, except where programs are.
    fn command(&self, program: &Path, log: &str) -> Result<Command, DemoError> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.root.join(log))
            .map_err(io_error("cannot write a log"))?;
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("HOME", &self.root)
            .current_dir(&self.root)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        Ok(command)
    }

    /// Starts the bus and waits until it answers.
    pub(super) fn start_bus(&mut self) -> Result<u32, DemoError> {
        let store = self.bus_store();
        let mut command = self.command(&self.programs.bus, "bus.log")?;
        command.args(["--addr", &self.addr, "--db"]).arg(&store);
        // Whatever ends this process closes the pipe, and the bus ends with it.
        command.arg("--end-with-stdin").stdin(Stdio::piped());
        let child = command.spawn().map_err(io_error("cannot start the bus"))?;
        let pid = child.id();
        let child = self.bus.insert(child);
        let admin = paths::admin_file(&store);
        self.patience.until("the bus to come up", || {
            if let Ok(Some(status)) = child.try_wait() {
                return Err(DemoError::Ended {
                    program: "the bus".to_owned(),
                    status: status.to_string(),
                    last: "bus.log says why".to_owned(),
                });
            }
            // The file of the bus before this one may still be there.
            let running = EndpointReader::open(&admin, Some(&store))
                .and_then(|reader| reader.status())
                .ok()
                .and_then(|status| status.running);
            Ok(running.filter(|running| running.pid == pid))
        })?;
        Ok(pid)
    }

    /// SIGKILL for the bus.
    pub(super) fn kill_bus(&mut self) -> Result<(), DemoError> {
        let Some(mut bus) = self.bus.take() else {
            return Ok(());
        };
        bus.kill()
            .and_then(|()| bus.wait())
            .map_err(io_error("cannot kill the bus"))?;
        Ok(())
    }

    /// Ends the bus as an operator does.
    pub(super) fn stop_bus(&mut self) -> Result<(), DemoError> {
        let Some(bus) = &mut self.bus else {
            return Ok(());
        };
        terminate(bus);
        self.patience.until("the bus to end", || {
            bus.try_wait().map_err(io_error("cannot wait for the bus"))
        })?;
        self.bus = None;
        Ok(())
    }

    /// What waits on the bus.
    pub(super) fn waiting(&self) -> Result<u64, DemoError> {
        let store = self.bus_store();
        let queues = EndpointReader::open(&paths::admin_file(&store), Some(&store))
            .and_then(|reader| reader.queues())
            .map_err(|e| DemoError::NotSo {
                what: format!("the bus answers ({e})"),
            })?;
        Ok(queues.queues.iter().map(|queue| queue.messages).sum())
    }

    /// Starts a channel server.
    pub(super) fn start_agent(&self, person: &Person) -> Result<Agent, DemoError> {
        let log = format!("{}.log", person.name);
        let mut command = self.command(&self.programs.agent, &log)?;
        command
            .args(["--url", &format!("http://{}", self.addr)])
            .args(["--session", &person.session(), "--name", person.name])
            .arg("--key")
            .arg(person.folder.join("id.key"))
            .arg("--peers")
            .arg(person.folder.join("peers.json"))
            .arg("--db")
            .arg(person.store())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let child = command
            .spawn()
            .map_err(io_error("cannot start a channel server"))?;
        Agent::introduce(person.name, child, &self.patience)
    }
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        if let Some(mut bus) = self.bus.take() {
            let _ = bus.kill();
            let _ = bus.wait();
        }
    }
}

#[cfg(unix)]
fn terminate(child: &mut Child) {
    let pid = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

#[cfg(not(unix))]
fn terminate(child: &mut Child) {
    let _ = child.kill();
}
