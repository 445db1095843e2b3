//! The smallest useful throttle: a fixed delay, a few requests at once, twice the wait
//! after each failure, everybody in turn, and lower limits for clients when the server
//! is busy.

use talon::throttle::{
    backoff, Admit, AdmitAnswer, After, AfterAnswer, Delay, DelayAnswer, Health, Outcome, Pick,
    PickAnswer, SubjectKind, Throttle, Tick, TickAnswer, DAY, MINUTE,
};
use talon::{Config, WrongValue};

struct Hello {
    delay: i64, // milliseconds, as the two that follow
    backoff: i64,
    longest: i64,
    in_flight: u32,
    per_minute: u32,
    events: u32,
}

impl Throttle for Hello {
    fn configure(config: &Config) -> Result<Self, WrongValue> {
        Ok(Hello {
            delay: config.int("delay_ms"),
            backoff: config.int("backoff_ms"),
            longest: config.int("backoff_max_ms"),
            in_flight: config.int("in_flight") as u32,
            per_minute: config.int("per_minute") as u32,
            events: config.int("events") as u32,
        })
    }

    fn delay(&mut self, _input: &Delay) -> DelayAnswer {
        DelayAnswer {
            delay: self.delay,
            expiry: 0,
        }
    }

    fn admit(&mut self, input: &Admit) -> AdmitAnswer {
        let left = input.subject.not_before - input.now;
        if left > 0 {
            return AdmitAnswer::Wait(left);
        }
        if input.subject.in_flight >= self.in_flight {
            return AdmitAnswer::WaitForEnd;
        }
        match input.subject.until_free(self.per_minute, MINUTE) {
            0 => AdmitAnswer::Start,
            wait => AdmitAnswer::Wait(wait),
        }
    }

    fn after(&mut self, input: &After) -> AfterAnswer {
        let subject = &input.subject;
        if subject.kind == SubjectKind::Repository {
            return AfterAnswer {
                delay: backoff(self.backoff, self.longest, input.attempts),
                ..AfterAnswer::default()
            };
        }
        let (delay, health) = match input.outcome {
            Outcome::Ok | Outcome::Partial | Outcome::NotFound => (0, Health::Healthy),
            _ if subject.failing_since != 0 && input.now - subject.failing_since > DAY => {
                (DAY, Health::Dead)
            }
            _ => {
                let delay = backoff(self.backoff, self.longest, subject.failures);
                (delay.max(input.retry_after).min(DAY), Health::Degraded)
            }
        };
        AfterAnswer {
            delay,
            health,
            ..AfterAnswer::default()
        }
    }

    /// Picks the repository that was served longest ago, so that all get their turn.
    fn pick(&mut self, input: &Pick) -> PickAnswer {
        let oldest = input
            .waiting()
            .enumerate()
            .min_by_key(|(_, repository)| repository.last_tried);
        PickAnswer::Next(oldest.map_or(0, |(index, _)| index))
    }

    /// Lowers the limit for events from a load of a half on, down to the operator's
    /// least at full load.
    fn tick(&mut self, input: &Tick) -> TickAnswer {
        let t = &input.telemetry;
        let mut load = t.cpu;
        if t.queue_limit > 0 {
            load = load.max(f64::from(t.queue) / f64::from(t.queue_limit));
        }
        if t.memory_limit > 0 {
            load = load.max(t.memory as f64 / t.memory_limit as f64);
        }
        let top = match input.most.events {
            0 => self.events,
            most => most.min(self.events),
        };
        let least = input.least.events.max(1).min(top);
        let busy = (2.0 * load - 1.0).max(0.0).min(1.0);
        let mut limits = input.current;
        limits.events = top - (busy * f64::from(top - least)) as u32;
        if limits == input.current {
            return TickAnswer::Keep;
        }
        TickAnswer::Limit(limits)
    }
}

talon::throttle!(Hello, include_bytes!("../manifest.json"));
