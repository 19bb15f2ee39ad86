//! Who is asked before somebody is admitted or revoked, and what counts as an answer.

use std::time::Instant;

use serde_json::{Value, json};

use crate::mcp_support::{Agent, DEADLINE, Home, Human, answer, human};

const NOWHERE: &str = "http://127.0.0.1:9";

fn with_user(home: &Home, human: Human) -> Agent {
    Agent::start_with_user(home.command(NOWHERE, "s"), human)
}

/// A host that answers in its user's place.
fn at_once(action: &'static str, decision: Option<&'static str>) -> Human {
    Box::new(move |_| Some(answer(action, decision)))
}

fn add(agent: &mut Agent, who: &Home) -> Value {
    let arguments = json!({ "petname": "bob", "key": who.key });
    let answer = agent.call_raw("add_peer", &arguments);
    assert!(answer["result"].is_object(), "{answer}");
    answer["result"].clone()
}

#[test]
fn a_human_who_agrees_admits_and_revokes() {
    let (home, bob) = (Home::new(1), Home::new(2));
    let mut agent = with_user(&home, human("accept", Some("admit")));
    let added = add(&mut agent, &bob);
    assert_eq!(added["structuredContent"]["changed"], true, "{added}");
    assert_eq!(home.peers(), json!({ "bob": { "key": bob.key } }));
    let listed = agent.call("list_peers", &json!({}));
    assert_eq!(listed["peers"][0]["origin"], "human");
    let form = &agent.asked[0]["params"];
    let message = form["message"].as_str().unwrap();
    for part in [bob.key.to_string(), bob.key.fingerprint().to_string()] {
        assert!(message.contains(&part), "{message}");
    }
    // What is there already is nothing to ask about.
    assert_eq!(add(&mut agent, &bob)["structuredContent"]["changed"], false);
    assert_eq!(agent.asked.len(), 1);

    agent.user(human("accept", Some("revoke")));
    let removed = agent.call("remove_peer", &json!({ "petname": "bob" }));
    assert_eq!(removed["removed"], true);
    assert_eq!(home.peers(), json!({}));
    assert_eq!(
        agent.call("remove_peer", &json!({ "petname": "bob" }))["removed"],
        false
    );
    assert_eq!(agent.asked.len(), 2);
}

#[test]
fn a_human_revokes_the_key_that_the_form_showed_and_no_other_under_its_name() {
    let (home, bob, eve) = (Home::new(1), Home::new(2), Home::new(3));
    home.write_peers(&json!({ "bob": { "key": bob.key } }));
    let edited = json!({ "bob": { "key": eve.key } });
    let (mut user, path) = (human("accept", Some("revoke")), home.peers_path());
    let text = edited.to_string();
    let mut agent = with_user(
        &home,
        Box::new(move |form| {
            let answer = user(form);
            std::fs::write(&path, &text).unwrap();
            answer
        }),
    );
    let answer = agent.call_raw("remove_peer", &json!({ "petname": "bob" }));
    let said = answer["error"]["message"].as_str().unwrap();
    for part in [&eve.key.to_string(), "nothing has changed"] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(home.peers(), edited);
    assert_eq!(agent.asked.len(), 1);
}

#[test]
fn what_nobody_was_asked_about_is_answered_from_the_log_and_admits_nobody() {
    let (home, bob, eve) = (Home::new(1), Home::new(2), Home::new(3));
    home.write_peers(&json!({ "bob": { "key": bob.key } }));
    let mut agent = with_user(&home, Box::new(|_| None));
    agent.call("list_peers", &json!({}));
    // Whoever changes the list holds this lock, so an answer that comes meanwhile changed nothing.
    let lock = std::fs::File::create(format!("{}.lock", home.peers_path().display())).unwrap();
    lock.lock().unwrap();
    let known = json!({ "petname": "bob", "key": bob.key });
    assert_eq!(agent.call("add_peer", &known)["changed"], false);
    let taken = json!({ "petname": "bob", "key": eve.key });
    let answer = agent.call_raw("add_peer", &taken);
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    let nobody = agent.call("remove_peer", &json!({ "petname": "ann" }));
    assert_eq!(nobody["removed"], false);
    home.write_peers(&json!({}));
    drop(lock);
    assert_eq!(agent.call("list_peers", &json!({}))["peers"], json!([]));
    assert_eq!(agent.asked.len(), 0);
}

#[test]
fn only_an_accepted_form_with_the_word_of_consent_admits() {
    let (home, bob) = (Home::new(1), Home::new(2));
    let answers: [(&str, Option<&str>, bool); 6] = [
        ("decline", None, false),
        ("decline", Some("admit"), false),
        ("accept", Some("refuse"), false),
        ("accept", Some("yes"), true),
        ("accept", None, true),
        ("cancel", None, true),
    ];
    for (action, decision, line) in answers {
        // A session each: a question that was turned away is not put again at once.
        let mut agent = with_user(&home, human(action, decision));
        let refused = add(&mut agent, &bob);
        assert_eq!(refused["isError"], true, "{action} {decision:?}: {refused}");
        assert_eq!(refused["structuredContent"]["changed"], false);
        let command = &refused["structuredContent"]["command"];
        assert_eq!(
            command.is_string(),
            line,
            "{action} {decision:?}: {refused}"
        );
        assert_eq!(home.peers(), json!({}));
    }
}

#[test]
fn a_host_that_cannot_ask_gets_the_line_for_the_terminal() {
    let (home, bob) = (Home::new(1), Home::new(2));
    let mut agent = home.start(NOWHERE, "s");
    let mut answers = vec![add(&mut agent, &bob)];
    // Hosts without a user in front of them answer at once, each in its way.
    for action in ["cancel", "decline"] {
        answers.push(add(&mut with_user(&home, at_once(action, None)), &bob));
    }
    for refused in answers {
        assert_eq!(refused["isError"], true, "{refused}");
        let line = refused["structuredContent"]["command"].as_str().unwrap();
        let wanted = format!("interlink-admin peers add bob {} --key ", bob.key);
        assert!(line.starts_with(&wanted), "{line}");
        for shown in [
            refused["content"][0]["text"].as_str().unwrap(),
            refused["structuredContent"]["note"].as_str().unwrap(),
        ] {
            assert!(shown.contains(line), "{shown}");
        }
    }
    assert_eq!(home.peers(), json!({}));
}

#[test]
fn a_form_that_nobody_answers_holds_up_no_other_call_and_not_the_end() {
    let (home, bob) = (Home::new(1), Home::new(2));
    let mut agent = with_user(&home, Box::new(|_| None));
    let arguments = json!({ "petname": "bob", "key": bob.key });
    agent.post(
        "tools/call",
        &json!({ "name": "add_peer", "arguments": arguments }),
    );
    let form = agent.heard("the form", |v| v["method"] == "elicitation/create");
    assert_eq!(agent.call("list_peers", &json!({}))["peers"], json!([]));
    let second = json!({ "petname": "c", "key": Home::new(3).key });
    let busy = agent.call_raw("add_peer", &second);
    let note = busy["result"]["structuredContent"]["note"]
        .as_str()
        .unwrap();
    assert!(note.contains("before the user"), "{busy}");
    let began = Instant::now();
    agent.close_stdin();
    assert_eq!(agent.wait().code(), Some(0));
    // Doubled for a busy machine.
    assert!(began.elapsed().as_millis() < 1000, "{:?}", began.elapsed());
    assert_eq!(home.peers(), json!({}), "{form}");
}

#[test]
fn a_call_that_is_withdrawn_takes_its_question_back_and_a_late_answer_changes_nothing() {
    let (home, bob) = (Home::new(1), Home::new(2));
    let mut agent = with_user(&home, Box::new(|_| None));
    let arguments = json!({ "petname": "bob", "key": bob.key });
    let call = agent.post(
        "tools/call",
        &json!({ "name": "add_peer", "arguments": arguments }),
    );
    let form = agent.heard("the form", |v| v["method"] == "elicitation/create");
    let cancelled = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": call },
    });
    agent.write(&cancelled.to_string());
    let back = agent.heard("the withdrawal", |v| {
        v["method"] == "notifications/cancelled"
    });
    assert_eq!(back["params"]["requestId"], form["id"], "{back}");
    let late = json!({
        "jsonrpc": "2.0", "id": form["id"], "result": answer("accept", Some("admit")),
    });
    agent.write(&late.to_string());
    assert_eq!(agent.call("list_peers", &json!({}))["peers"], json!([]));
    assert_eq!(home.peers(), json!({}));
}

#[test]
fn a_question_that_was_turned_away_is_not_put_again_at_once() {
    let (home, bob) = (Home::new(1), Home::new(2));
    let mut agent = with_user(&home, human("decline", None));
    assert_eq!(add(&mut agent, &bob)["isError"], true);
    agent.user(human("accept", Some("admit")));
    let again = add(&mut agent, &bob);
    assert_eq!(again["isError"], true, "{again}");
    assert_eq!(agent.asked.len(), 1, "within {DEADLINE:?}");
    assert_eq!(home.peers(), json!({}));
    // Another key is another question.
    let arguments = json!({ "petname": "c", "key": Home::new(3).key });
    assert_eq!(agent.call("add_peer", &arguments)["changed"], true);
}

#[test]
fn with_consent_of_the_tool_nobody_is_asked() {
    let (home, bob) = (Home::new(1), Home::new(2));
    let mut command = home.command(NOWHERE, "s");
    command.env("INTERLINK_CONSENT", "tool");
    let mut agent = Agent::start_with_user(command, Box::new(|_| None));
    assert_eq!(add(&mut agent, &bob)["structuredContent"]["changed"], true);
    assert_eq!(agent.asked.len(), 0);
    let listed = agent.call("list_peers", &json!({}));
    assert_eq!(listed["peers"][0]["origin"], "tool");
}

#[test]
fn tools_that_need_the_human_say_so() {
    let home = Home::new(1);
    let mut agent = home.start(NOWHERE, "s");
    let tools = agent.request("tools/list", &json!({}))["result"]["tools"].clone();
    let marked: Vec<&str> = tools
        .as_array()
        .unwrap()
        .iter()
        .filter(|t| t["_meta"]["anthropic/requiresUserInteraction"] == true)
        .map(|t| t["name"].as_str().unwrap())
        .collect();
    for name in ["add_peer", "remove_peer"] {
        assert!(marked.contains(&name), "{name}: {marked:?}");
    }
}
