package scenario

import (
	"time"

	"talon/host/relaymodel"
	"talon/host/relaysync"
	"talon/internal/tomlschema"
)

// Duration is a length of time as a scenario has it.
type Duration = tomlschema.Duration

// Scenario is a network. Start from [Parse] or [Builtin]: there the defaults are set. The
// tags of the fields are the keys of the file, their bounds and their meaning;
// docs/reference-lab-scenarios.md is made from them.
type Scenario struct {
	Name        string   `key:"name" doc:"how results call it; empty: the name of the file"`
	Description string   `key:"description" doc:"one sentence for people"`
	Duration    Duration `key:"duration" doc:"how long the network is run"`
	Quiet       Duration `key:"quiet" doc:"the last part of it, in which nobody publishes: what is missing then comes, and nothing else happens"`
	Start       int      `key:"start" min:"900000000" max:"4000000000" doc:"when it begins, in unix seconds"`
	Level       string   `key:"level" one:"wire|model" doc:"how relays are played unless the command says so: wire is every frame and the session of production, model what it costs"`
	Bucket      Duration `key:"bucket" doc:"the step of what is drawn over time; 0: a 200th of the duration"`

	Talon        Talon             `key:"talon" doc:"The Talons that run the strategy and the throttle."`
	Relays       map[string]Relays `key:"relays" doc:"Foreign relays, in classes: [relays.NAME]."`
	Repositories Repositories      `key:"repositories" doc:"Repositories, and what was said in them before the run."`
	Publishers   Publishers        `key:"publishers" doc:"What is published during the run, drawn before it. Rates are of the whole network."`
	Faults       []Fault           `key:"fault" doc:"What goes wrong at a time. Outages that come by chance are with their class of relays."`
	Invariants   Invariants        `key:"invariants" doc:"What must hold; what does not ends a run."`
}

// Talon is what runs the strategy.
type Talon struct {
	Count         int      `key:"count" min:"1" max:"100" doc:"how many there are, all with the same modules"`
	Profile       string   `key:"profile" doc:"how they serve others: a name of talon devnet's profiles"`
	LatencyMS     float64  `key:"latency-ms" max:"60000" doc:"milliseconds from one to another"`
	CommitMS      float64  `key:"commit-ms" max:"60000" doc:"milliseconds until what has come is decided and on disk"`
	EventMS       float64  `key:"event-ms" max:"60000" doc:"milliseconds more for each event"`
	Held          float64  `key:"held" max:"1" doc:"share of announcements and states that wait in purgatory for git data"`
	HeldMedian    Duration `key:"held-median" doc:"how long they wait, log-normal; after 30 minutes they expire"`
	HeldSigma     float64  `key:"held-sigma" max:"5" doc:"spread of that"`
	Refused       float64  `key:"refused" max:"1" doc:"share of threads that the policy refuses"`
	Connections   int      `key:"connections" min:"1" max:"100000" doc:"relays that one is connected to at once"`
	Subscriptions int      `key:"subscriptions" min:"1" max:"10000" doc:"that one keeps open on a relay"`
	Push          bool     `key:"push" doc:"relays may be sent what they lack, if the strategy asks for it"`
}

// Relays is a class of relays.
type Relays struct {
	Count     int     `key:"count" max:"100000" doc:"how many there are"`
	Profile   string  `key:"profile" doc:"how they behave: a name of talon devnet's profiles, or default"`
	Keys      string  `key:"keys" doc:"TOML over that profile, such as '''limits.subscriptions = 10'''"`
	Bootstrap int     `key:"bootstrap" max:"1000" doc:"how many of them are bootstrap relays: every Talon knows them, and all announcements are there"`
	Listed    bool    `key:"listed" doc:"repositories may list them"`
	Weight    float64 `key:"weight" max:"1000000" doc:"how often one is listed, against the others"`
	LatencyMS float64 `key:"latency-ms" max:"60000" doc:"milliseconds one way, the median over the relays"`
	Spread    float64 `key:"latency-sigma" max:"3" doc:"spread of that, log-normal"`
	Jitter    float64 `key:"jitter" max:"10" doc:"share by which the latency of one relay changes from minute to minute"`
	Bandwidth int     `key:"bandwidth" max:"1000000000000" doc:"bytes in a second that a connection brings; 0 is no limit"`
	Rate      float64 `key:"rate" max:"1000000000" doc:"REQs and NEG-OPENs in a minute; 0: as the profile says"`

	OutageEvery  Duration `key:"outage-every" doc:"mean time between two outages of one relay; 0: there are none"`
	OutageMedian Duration `key:"outage-median" doc:"how long one is, log-normal"`
	OutageSigma  float64  `key:"outage-sigma" max:"5" doc:"spread of that"`
	OutageStatus int      `key:"outage-status" max:"599" doc:"HTTP status that is answered meanwhile; 0: connections are refused"`
	Flapping     int      `key:"flapping" max:"1000" doc:"an outage is so many short ones, half of the time away"`
	HalfOpen     float64  `key:"half-open" max:"1" doc:"share of outages in which connections stay open and bring nothing"`
	Dying        float64  `key:"dying" max:"1" doc:"share of these relays that are gone for ever at some time of the run"`
}

// Repositories is what there is.
type Repositories struct {
	Count     int      `key:"count" min:"1" max:"1000000" doc:"how many there are"`
	Owners    int      `key:"owners" min:"1" max:"1000000" doc:"whose they are"`
	Zipf      float64  `key:"zipf" max:"3" doc:"how unequal they are: the exponent of Zipf's law for roots and everything later"`
	RelaysMin int      `key:"relays-min" min:"1" max:"64" doc:"foreign relays that one lists"`
	RelaysMax int      `key:"relays-max" min:"1" max:"64" doc:"at most"`
	Foreign   float64  `key:"foreign" max:"1" doc:"share that list none of the Talons"`
	Talons    int      `key:"talons" min:"1" max:"64" doc:"Talons that one lists"`
	Roots     int      `key:"roots" max:"10000000" doc:"issues, patches and pull requests that are there before the run"`
	Comments  float64  `key:"comments" max:"1000" doc:"comments for each root"`
	States    bool     `key:"states" doc:"each has a state (30618)"`
	History   Duration `key:"history" doc:"how long before the run the oldest event is"`
	Bytes     int      `key:"bytes" max:"60000" doc:"median length of a text"`
	Sigma     float64  `key:"bytes-sigma" max:"3" doc:"spread of that, log-normal"`
	CopiesMin int      `key:"copies-min" min:"1" max:"64" doc:"listed relays that an event of before the run is at"`
	CopiesMax int      `key:"copies-max" min:"1" max:"64" doc:"at most"`
}

// Publishers is what is said during the run.
type Publishers struct {
	Roots     float64 `key:"roots-per-day" max:"10000000" doc:"new issues, patches and pull requests"`
	Comments  float64 `key:"comments-per-day" max:"10000000" doc:"comments in threads that exist; threads grow by their size"`
	States    float64 `key:"states-per-day" max:"10000000" doc:"new states (30618), each in place of the one before"`
	Edits     float64 `key:"edits-per-day" max:"10000000" doc:"new versions of announcements"`
	Moves     float64 `key:"moves-per-day" max:"10000000" doc:"announcements that list other relays; what follows is at those"`
	New       float64 `key:"repositories-per-day" max:"10000000" doc:"new repositories"`
	Deletions float64 `key:"deletions-per-day" max:"10000000" doc:"comments that their authors delete (NIP-09)"`
	Noise     float64 `key:"noise-per-day" max:"10000000" doc:"events about nothing here, at relays that are listed"`

	Diurnal   float64  `key:"diurnal" max:"1" doc:"how much more is said by day than by night"`
	CopiesMin int      `key:"copies-min" min:"1" max:"64" doc:"listed relays that an event is sent to"`
	CopiesMax int      `key:"copies-max" min:"1" max:"64" doc:"at most"`
	SpreadS   float64  `key:"spread-s" max:"86400" doc:"seconds within which its copies are sent"`
	Direct    float64  `key:"direct" max:"1" doc:"share of events that are sent to a listed Talon too"`
	BackDated float64  `key:"back-dated" max:"1" doc:"share of events with a created_at of before they are sent"`
	BackBy    Duration `key:"back-dated-by" doc:"by how much at most"`
	Late      float64  `key:"late" max:"1" doc:"share of copies that reach their relay late"`
	LateBy    Duration `key:"late-by" doc:"by how much at most"`
}

// Fault is something that goes wrong at a time.
type Fault struct {
	What   string   `key:"what" one:"outage|half-open|partition|reset|slow|restart|crash|swap|disk|skew" doc:"relays: outage, half-open (connections bring nothing), partition (from the Talons alone), reset (connections end), slow (latency by factor); Talons: restart, crash, swap (the strategy begins with the world as it is), disk (slower by factor), skew (the clock is wrong by seconds)"`
	At     Duration `key:"at" doc:"when it begins"`
	For    Duration `key:"for" doc:"how long it lasts"`
	Every  Duration `key:"every" doc:"from one to the next; 0: there is one"`
	Class  string   `key:"class" doc:"class of relays; empty: all"`
	Share  float64  `key:"share" max:"1" doc:"share of them, or of the Talons"`
	Status int      `key:"status" max:"599" doc:"HTTP status of an outage; 0: connections are refused"`
	Factor float64  `key:"factor" min:"1" max:"1000000" doc:"of slow and disk"`
	SkewS  int      `key:"seconds" min:"-1000000000" max:"1000000000" doc:"of skew"`
}

// Invariants is what must hold.
type Invariants struct {
	Within   Duration `key:"within" doc:"what is wanted and on a relay that could be reached for so long is here; 0: is not checked"`
	Overlap  Duration `key:"overlap" doc:"how long two subscriptions on one relay may ask for the same value; 0: is not checked"`
	Steps    int      `key:"steps" max:"100000000" doc:"steps of the strategy in one second; 0: is not checked"`
	Quiet    int      `key:"quiet-requests" max:"100000000" doc:"REQs and NEG-OPENs on one relay in the last quarter of the quiet time; 0: is not checked"`
	Settle   bool     `key:"complete" doc:"what is wanted and can be had is here at the end"`
	BarredOK bool     `key:"barred" doc:"honest relays may be barred"`
}

const day = Duration(24 * time.Hour)

// Default is the scenario of which a text says what is different. It has no relays.
func Default() *Scenario {
	return &Scenario{
		Duration: day, Quiet: Duration(2 * time.Hour), Start: 1_767_225_600, Level: "wire",
		Talon: Talon{
			Count: 1, Profile: "ngit-grasp", LatencyMS: 20, CommitMS: 2, EventMS: 0.05, HeldMedian: Duration(time.Minute), HeldSigma: 1,
			Connections: relaysync.DefaultLimits.Connections, Subscriptions: relaysync.DefaultLimits.Subscriptions,
		},
		Relays: map[string]Relays{},
		Repositories: Repositories{
			Count: 20, Owners: 10, Zipf: 1, RelaysMin: 2, RelaysMax: 3, Talons: 1, Roots: 100, Comments: 2, States: true, History: 90 * day,
			Bytes: 300, Sigma: 1, CopiesMin: 1, CopiesMax: 3,
		},
		Publishers: Publishers{
			Roots: 40, Comments: 120, States: 20, Diurnal: 0.6, CopiesMin: 1, CopiesMax: 3, SpreadS: 2, BackBy: 2 * day, LateBy: Duration(2 * time.Hour),
		},
		Invariants: Invariants{Within: Duration(30 * time.Hour), Overlap: Duration(30 * time.Minute), Steps: 20_000, Quiet: 600, Settle: false},
	}
}

// SetDefaults makes a class of relays without faults.
func (r *Relays) SetDefaults() {
	*r = Relays{
		Profile: "default", Listed: true, Weight: 1, LatencyMS: 40, Spread: 0.5, Jitter: 0.1, Bandwidth: 5_000_000,
		OutageMedian: Duration(5 * time.Minute), OutageSigma: 1.5,
	}
}

// SetDefaults makes a fault that hits all.
func (f *Fault) SetDefaults() { *f = Fault{Share: 1, Factor: 10, For: Duration(10 * time.Minute)} }

// profile returns how the relays of a class behave.
func (r *Relays) profile() (p *relaymodel.Profile, err error) {
	if p = relaymodel.Default(); r.Profile != "default" {
		if p, err = relaymodel.Builtin(r.Profile); err != nil {
			return nil, err
		}
	}
	if p, err = p.With([]byte(r.Keys)); err != nil {
		return nil, err
	}
	if r.Rate > 0 {
		rate := p.Rate.Requests
		rate.PerMinute, rate.Burst = r.Rate, 0
		if rate.By == "" {
			rate.By = "closed"
		}
		p.Rate.Requests = rate
	}
	return p, nil
}
