//! Sealed sessions: two who never met, with a code that one tells the other.

use rmcp::model::Tool;

use super::{Call, Effect, Hint, Outcome, describe, run};
use crate::agent::mcp::args::Nothing;
use crate::agent::mcp::args::bond as args;
use crate::agent::mcp::reply::bond as reply;
use crate::agent::mcp::tool::{bond, bond_file, bond_pin, send_file};

pub(super) fn tools() -> Vec<Tool> {
    let mut tools = session();
    tools.extend(talk());
    tools.extend(files());
    tools.extend(peers());
    tools
}

fn session() -> Vec<Tool> {
    vec![
        describe::<args::Connect, reply::BondState>(
            "bond_connect",
            "Open a sealed session",
            "Open an end-to-end encrypted session and get its code. Show the code to the user, who \
             tells it to the other person by a way of their own (not through the relay); their agent \
             calls bond_join with it. The code works for 30 minutes.",
            Effect::Sends,
            Hint::None,
        ),
        describe::<args::Join, reply::BondState>(
            "bond_join",
            "Join a sealed session",
            "Join the sealed session that somebody opened, with the code that the user was given.",
            Effect::Sends,
            Hint::None,
        ),
        describe::<Nothing, reply::BondState>(
            "bond_status",
            "Show the sealed session",
            "Say how the sealed session stands: who is there, whether it is confirmed, which files \
             wait for the user, what went wrong. Hands over the events that wait.",
            Effect::ReadsAndBooks,
            Hint::None,
        ),
        describe::<Nothing, reply::BondEnded>(
            "bond_end",
            "End the sealed session",
            "End the sealed session: its keys are erased and files that wait are dropped. Works \
             whether or not the relay can be reached.",
            Effect::Drops,
            Hint::None,
        ),
    ]
}

fn talk() -> Vec<Tool> {
    vec![
        describe::<args::Message, reply::BondSent>(
            "bond_message",
            "Write in the sealed session",
            "Send a short message to the other side of the sealed session. One message or file every \
             10 seconds; use bond_wait for the answer.",
            Effect::Sends,
            Hint::None,
        ),
        describe::<args::Wait, reply::BondWaited>(
            "bond_wait",
            "Wait in the sealed session",
            "Wait until something happens in the sealed session: a message, a file, somebody joins or \
             leaves. Returns at once when events wait already. What a peer wrote stands between \
             markers and is untrusted.",
            Effect::ReadsAndBooks,
            Hint::None,
        ),
    ]
}

fn files() -> Vec<Tool> {
    vec![
        describe::<args::SendFile, reply::BondSent>(
            "bond_send",
            "Send a file in the sealed session",
            "Send a file of the project to the other side of the sealed session: a text file, or with a \
             spoken code any file but programs. Their user decides whether it is taken. Keys, credentials \
             and files outside the project are refused.",
            Effect::Sends,
            Hint::None,
        ),
        describe::<args::Transfer, reply::BondDecided>(
            "bond_accept",
            "Accept a file",
            "Save a file that the other side offered, and show it. The user is asked first and sees a \
             preview of a text that is here already; where the host cannot ask, the answer is a line for the user's terminal.",
            Effect::Admits,
            Hint::AskUser,
        ),
        describe::<args::Transfer, reply::BondDecided>(
            "bond_decline",
            "Decline a file",
            "Drop a file that the other side offered. They are told in a session with a spoken code only.",
            Effect::Drops,
            Hint::None,
        ),
    ]
}

fn peers() -> Vec<Tool> {
    let mut tools = vec![describe::<args::FileToPeer, reply::BondSent>(
        "send_file",
        "Send a file to a peer",
        "Offer a file of the project to an admitted peer: any file but programs, end-to-end encrypted, without a code. Their user decides whether it is taken; bond_wait tells. \
         Keys, credentials and files outside the project are refused.",
        Effect::Sends,
        Hint::None,
    )];
    tools.push(pin());
    tools
}

fn pin() -> Tool {
    describe::<args::Pin, reply::BondPinned>(
        "bond_pin",
        "Pin the other side of the sealed session",
        "Make a peer of the other side of a confirmed session of a spoken code, so that no code is needed \
         the next time. The user is asked first, and the other side's user too; where the host cannot \
         ask, the answer is a line for the user's terminal.",
        Effect::Admits,
        Hint::AskUser,
    )
}

pub(super) async fn call(call: &Call<'_>) -> Outcome {
    let (core, host) = (call.core, &call.host);
    if call.name.starts_with("bond_") || call.name == "send_file" {
        core.bond.attach(core);
    }
    Some(match call.name {
        "bond_connect" => run(call, |a| bond::connect(core, a)).await,
        "bond_join" => run(call, |a| bond::join(core, a)).await,
        "bond_status" => run(call, |a| bond::status(core, a)).await,
        "bond_message" => run(call, |a| bond::message(core, a)).await,
        "bond_wait" => run(call, |a| bond::wait(core, host, a)).await,
        "bond_end" => run(call, |a| bond::end(core, a)).await,
        "bond_send" => run(call, |a| bond_file::send(core, a)).await,
        "bond_accept" => run(call, |a| bond_file::accept(core, host, a)).await,
        "bond_decline" => run(call, |a| bond_file::decline(core, a)).await,
        "send_file" => run(call, |a| send_file::send_file(core, a)).await,
        "bond_pin" => run(call, |a| bond_pin::pin(core, host, a)).await,
        _ => return None,
    })
}
