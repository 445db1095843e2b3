//! Generated from talon.proto by internal/abigen.

use crate::message::message;
use crate::message::names;
use crate::request::Origin;
use crate::wire;

names! {
    /// The kind of a subject.
    SubjectKind {
        Unspecified = 0,
        /// Git requests to a domain.
        Domain = 1,
        /// Connections to a relay.
        Relay = 2,
        /// The search for a repository's git data, over all its domains.
        Repository = 3,
    }
}

names! {
    /// The result of a request, a connection or a round.
    Outcome {
        Unspecified = 0,
        /// Relay: connected; domain: all requested objects.
        Ok = 1,
        /// Some of the objects.
        Partial = 2,
        /// The server answered, and has none of the objects, or those that it has were
        /// refused.
        NotFound = 3,
        /// 429; a NOTICE or CLOSED that says so.
        RateLimited = 4,
        /// 401, 403; not for us.
        Refused = 5,
        /// 5xx.
        Server = 6,
        Timeout = 7,
        /// No connection, or it broke.
        Unreachable = 8,
        /// The name has no address.
        Dns = 9,
        /// The certificate or handshake is wrong.
        Tls = 10,
        /// Not what git or nostr allow.
        Protocol = 11,
        /// The host stopped reading.
        TooLarge = 12,
        /// Relay: a connection that was up ended.
        Disconnected = 13,
    }
}

names! {
    /// The throttle's judgement of a domain or relay, kept across restarts.
    Health {
        /// As it was.
        Unchanged = 0,
        Healthy = 1,
        /// Failing, tried again soon.
        Degraded = 2,
        /// Failing for long, tried again seldom.
        Dead = 3,
        /// Its name, certificate or protocol is broken: set aside; dead in metrics.
        Barred = 4,
    }
}

message! {
    /// The domain, relay or repository of a request, with its recent history.
    Subject ['a] {
        kind: SubjectKind = 1,
        /// A host name, with the port if it is not the usual one; a relay's URL;
        /// 30617:pubkey:d.
        name: &'a str = 2,
        /// Requests, connection attempts.
        in_flight: u32 = 3,
        /// In a row.
        failures: u32 = 5,
        /// The first of them.
        failing_since: i64 = 6,
        last_success: i64 = 7,
        /// The latest answer of the throttle.
        not_before: i64 = 8,
        /// The latest answer of the throttle.
        health: Health = 9,
        /// Relay: the operator named it.
        bootstrap: bool = 10,
        /// Relay: time of connection less time of failures, at most a day, at the first
        /// failure of the row.
        uptime: i64 = 11,
        /// Relay: how often in a row its name, certificate or protocol ended an attempt
        /// or a connection; ten minutes of connection end the row.
        faults: u32 = 12,
        /// Relay: the first of these.
        faulty_since: i64 = 13,
    }
}

impl<'a> Subject<'a> {
    /// Milliseconds since each of the latest starts, newest first, at most 256.
    pub fn ages(&self) -> impl Iterator<Item = u32> + 'a {
        wire::numbers(self.raw, 4).map(wire::uint)
    }
}

message! {
    /// Asks how long to wait before the first attempt, after an event of a repository was
    /// held, or before the first connection to a relay.
    Delay ['a] {
        now: i64 = 1,
        /// A repository or a relay.
        subject: Subject<'a> = 2,
        /// Of the event.
        origin: Origin = 3,
        /// Of the event.
        event_kind: u32 = 4,
        /// An attempt that is already planned; the sooner one counts.
        planned: i64 = 5,
    }
}

message! {
    /// Asks whether one more request may start now.
    Admit ['a] {
        now: i64 = 1,
        /// A domain or a relay.
        subject: Subject<'a> = 2,
        /// The purpose of the request, 30617:pubkey:d; empty for a relay.
        repository: &'a str = 3,
        /// Requests of this kind, to all subjects.
        all_in_flight: u32 = 4,
    }
}

message! {
    /// Gives the outcome of a request or connection, and asks when to go on. For a
    /// repository it is the outcome of a round over all its URLs that left something
    /// missing.
    After ['a] {
        now: i64 = 1,
        /// Its failures and ages include this outcome.
        subject: Subject<'a> = 2,
        outcome: Outcome = 3,
        /// The purpose of a request to a domain, 30617:pubkey:d.
        repository: &'a str = 4,
        /// Of HTTP.
        status: u32 = 5,
        /// The time that the server asked for, from now.
        retry_after: i64 = 6,
        took: i64 = 7,
        /// Received.
        bytes: i64 = 8,
        /// Objects that were missing and have arrived.
        found: u32 = 9,
        /// Objects that are still missing.
        missing: u32 = 10,
        /// Repository: rounds since its latest event.
        attempts: u32 = 11,
        /// Repository: when its search began; relay: when the connection was made.
        since: i64 = 12,
        /// The message of the server or the network.
        reason: &'a str = 13,
    }
}

message! {
    /// A repository that waits for a domain.
    Waiting ['a] {
        /// 30617:pubkey:d.
        repository: &'a str = 1,
        /// When it came into this queue.
        since: i64 = 2,
        /// The latest request for it to this domain; 0: none yet.
        last_tried: i64 = 3,
        /// Rounds since its latest event.
        attempts: u32 = 4,
        /// Objects.
        missing: u32 = 5,
        /// Of this domain that are not tried yet.
        urls: u32 = 6,
    }
}

message! {
    /// Asks which of the repositories that wait for a domain is next.
    Pick ['a] {
        now: i64 = 1,
        /// The domain.
        subject: Subject<'a> = 2,
    }
}

impl<'a> Pick<'a> {
    /// At most 16, the one served longest ago first.
    pub fn waiting(&self) -> impl Iterator<Item = Waiting<'a>> {
        wire::values(self.raw, 3).map(Waiting::read)
    }
}

message! {
    /// The list of limits of one client. 0: no limit.
    ClientLimits [] {
        /// From one address.
        connections: u32 = 1,
        /// Open on one connection.
        subscriptions: u32 = 2,
        /// Of one subscription.
        filters: u32 = 3,
        /// EVENT messages in a minute.
        events: u32 = 4,
        /// REQ, COUNT and NEG-OPEN in a minute.
        queries: u32 = 5,
        /// In a second.
        bytes_in: i64 = 6,
        /// In a second.
        bytes_out: i64 = 7,
    }
}

message! {
    /// The load of this server, over the time since the last tick.
    Telemetry [] {
        interval: i64 = 1,
        /// Share of all processors, 0 to 1.
        cpu: f64 = 2,
        /// Bytes in use.
        memory: i64 = 3,
        /// Bytes; 0: none.
        memory_limit: i64 = 4,
        connections: u32 = 5,
        subscriptions: u32 = 6,
        /// In a second, from clients.
        events: f64 = 7,
        /// In a second.
        queries: f64 = 8,
        /// In a second.
        bytes_in: f64 = 9,
        /// In a second.
        bytes_out: f64 = 10,
        /// Events that wait to be decided or written.
        queue: u32 = 11,
        queue_limit: u32 = 12,
        /// From EVENT to OK, the 99th percentile, in microseconds.
        answer_time: i64 = 13,
        /// Clients that do not read fast enough.
        slow_clients: u32 = 14,
    }
}

message! {
    /// Gives the load of this server, every few seconds.
    Tick [] {
        now: i64 = 1,
        telemetry: Telemetry = 2,
        current: ClientLimits = 3,
        /// The operator's limits: the host keeps every answer within them.
        least: ClientLimits = 4,
        most: ClientLimits = 5,
    }
}
