//! What happens in the demonstration.

use std::path::Path;

use serde_json::{Value, json};

use super::mcp::Agent;
use super::programs::Programs;
use super::timeline::{self, Mark, Moment};
use super::world::World;
use super::{DemoError, Patience, say};
use crate::cli::admin::error::AdminError;
use crate::cli::admin::print::{Printer, Style, now, time};

const HELLO: &str = "Hello Ben, can you hear me?";
const LOUD: &str = "Loud and clear.";
const FOLLOWED: &str = "The migration is done, please review.";
const STORM: &str = "I am writing this while there is no bus.";
const REVIEWED: &str = "Reviewed, ship it.";

/// What came out.
pub(super) struct Story {
    /// Id of the message that was followed.
    pub(super) message: String,
    pub(super) timeline: Vec<Moment>,
    pub(super) proved: Vec<String>,
}

/// What was seen on the way, with its time.
struct Stage<'p> {
    printer: &'p mut Printer,
    marks: Vec<Mark>,
}

impl Stage<'_> {
    fn tell(&mut self, text: &str) -> Result<(), AdminError> {
        say(
            self.printer,
            Style::Plain,
            &format!("{}  {text}", time(now().0)),
        )
    }

    fn mark(&mut self, text: &str) -> Result<(), AdminError> {
        self.marks.push(Mark {
            at: now().0,
            text: text.to_owned(),
        });
        say(
            self.printer,
            Style::Bold,
            &format!("{}  {text}", time(now().0)),
        )
    }
}

pub(super) fn play(
    programs: &Programs,
    folder: &Path,
    patience: &Patience,
    printer: &mut Printer,
) -> Result<Story, AdminError> {
    let mut stage = Stage {
        printer,
        marks: vec![],
    };
    let mut world = World::create(programs, folder, patience)?;
    let pid = world.start_bus()?;
    let mut ada = world.start_agent(&world.ada)?;
    let mut ben = world.start_agent(&world.ben)?;
    stage.tell(&format!(
        "a bus (pid {pid}) and the channel servers of ada and ben run"
    ))?;
    let mut sent = vec![];

    sent.push(("ben", send(&mut ada, &world.ben, HELLO)?));
    read(&mut ben, &world, &[HELLO], patience)?;
    sent.push(("ada", send(&mut ben, &world.ada, LOUD)?));
    read(&mut ada, &world, &[LOUD], patience)?;
    stage.tell("one message each way: delivered, read, acknowledged")?;

    ben.kill()?;
    stage.mark("SIGKILL for ben's channel server")?;
    let followed = send(&mut ada, &world.ben, FOLLOWED)?;
    sent.push(("ben", followed.clone()));
    patience.until("the bus to take the message", || {
        accepted(&mut ada, &followed)
    })?;
    stage.tell("ada writes to ben; the bus keeps it, since nobody polls")?;
    world.kill_bus()?;
    stage.mark("SIGKILL for the bus, with the message in its queue")?;
    sent.push(("ben", send(&mut ada, &world.ben, STORM)?));
    stage.tell("ada writes once more; it waits in her log, since there is no bus")?;

    let pid = world.start_bus()?;
    stage.mark(&format!("the bus is back (pid {pid})"))?;
    let mut ben = world.start_agent(&world.ben)?;
    stage.mark("ben's channel server is back, same session")?;
    unread_until_acknowledged(&mut ben, &[FOLLOWED, STORM], patience)?;
    stage.tell("ben reads both twice: unread until acknowledged, then gone")?;
    sent.push(("ada", send(&mut ben, &world.ada, REVIEWED)?));
    read(&mut ada, &world, &[REVIEWED], patience)?;
    stage.tell("ben answers; ada reads and acknowledges")?;
    patience.until("the bus to be told of every receipt", || {
        Ok((world.waiting()? == 0).then_some(()))
    })?;

    for agent in [ada, ben] {
        agent.close()?;
    }
    world.stop_bus()?;
    stage.tell("all three ended in order; what do their logs say?")?;
    let marks = std::mem::take(&mut stage.marks);
    let found = timeline::examine(&world, &followed, &sent, marks)?;
    if !printer.json {
        timeline::print(&found.timeline, FOLLOWED, printer)?;
    }
    Ok(Story {
        message: followed,
        timeline: found.timeline,
        proved: found.proved,
    })
}

/// Sends; gives the id. When it returns, the message is on the sender's disk.
fn send(from: &mut Agent, to: &super::world::Person, text: &str) -> Result<String, DemoError> {
    let arguments = json!({ "to": to.name, "session": to.session(), "text": text });
    let answer = from.call("send_message", &arguments)?;
    match answer.get("msg_id").and_then(Value::as_str) {
        Some(id) => Ok(id.to_owned()),
        None => Err(DemoError::NotSo {
            what: "send_message tells the id of the message".to_owned(),
        }),
    }
}

/// Whether a relay has the message.
fn accepted(agent: &mut Agent, id: &str) -> Result<Option<()>, DemoError> {
    let answer = agent.call("message_status", &json!({ "msg_id": id }))?;
    let state = answer.pointer("/sent/state").and_then(Value::as_str);
    Ok((state == Some("bus_accepted")).then_some(()))
}

fn inbox(agent: &mut Agent) -> Result<Vec<Value>, DemoError> {
    let mut answer = agent.call("receive_messages", &json!({}))?;
    match answer.get_mut("messages").map(Value::take) {
        Some(Value::Array(messages)) => Ok(messages),
        _ => Ok(vec![]),
    }
}

/// Whether these texts, and nothing else, are unread.
fn are(messages: &[Value], texts: &[&str]) -> bool {
    messages.len() == texts.len()
        && texts.iter().all(|text| {
            messages.iter().any(|message| {
                let content = message.get("content").and_then(Value::as_str);
                content.is_some_and(|content| content.contains(text))
            })
        })
}

fn acknowledge(agent: &mut Agent, messages: &[Value]) -> Result<(), DemoError> {
    let receipts: Vec<&Value> = messages.iter().filter_map(|m| m.get("receipt")).collect();
    agent.call("acknowledge_messages", &json!({ "messages": receipts }))?;
    Ok(())
}

/// Waits for these texts, acknowledges them, and waits until the bus knows that they arrived.
fn read(
    agent: &mut Agent,
    world: &World<'_>,
    texts: &[&str],
    patience: &Patience,
) -> Result<(), DemoError> {
    let messages = patience.until("a message to arrive", || arrived(agent, texts))?;
    acknowledge(agent, &messages)?;
    patience.until("the bus to be told", || {
        Ok((world.waiting()? == 0).then_some(()))
    })
}

/// Whether these texts, and nothing else, are unread. A channel server that has just started may
/// not have its log open yet; a host asks again.
fn arrived(agent: &mut Agent, texts: &[&str]) -> Result<Option<Vec<Value>>, DemoError> {
    match inbox(agent) {
        Ok(messages) => Ok(are(&messages, texts).then_some(messages)),
        Err(DemoError::Tool { .. }) => Ok(None),
        Err(e) => Err(e),
    }
}

fn unread_until_acknowledged(
    agent: &mut Agent,
    texts: &[&str],
    patience: &Patience,
) -> Result<(), DemoError> {
    patience.until("ben's mail to arrive", || arrived(agent, texts))?;
    let again = inbox(agent)?;
    if !are(&again, texts) {
        return Err(DemoError::NotSo {
            what: "what was read but not acknowledged stays unread".to_owned(),
        });
    }
    acknowledge(agent, &again)?;
    if !inbox(agent)?.is_empty() {
        return Err(DemoError::NotSo {
            what: "what was acknowledged is not unread any more".to_owned(),
        });
    }
    Ok(())
}
