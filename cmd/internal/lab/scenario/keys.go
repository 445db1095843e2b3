package scenario

import (
	"time"

	"talon/host/relaysync"
	"talon/internal/tomlschema"
)

// Duration is a length of time in a scenario.
type Duration = tomlschema.Duration

// Scenario is a network. Start from [Parse] or [Builtin]: there the defaults are set. The
// tags of the fields are the keys of the file, their bounds and their meaning;
// docs/reference-lab-scenarios.md is made from them.
type Scenario struct {
	Name        string   `key:"name" doc:"its name in results; empty: the name of the file"`
	Description string   `key:"description" doc:"one sentence for people"`
	Duration    Duration `key:"duration" doc:"how long the network is run"`
	Quiet       Duration `key:"quiet" doc:"the last part of the run, without publications: missing events arrive, and nothing else happens"`
	Start       int      `key:"start" min:"900000000" max:"4000000000" doc:"when it begins, in unix seconds"`
	Level       string   `key:"level" one:"wire|model" doc:"how relays are simulated, if the command does not set it: wire has every frame and the production session, model has their costs"`
	Bucket      Duration `key:"bucket" doc:"the step of series over time; 0: a 200th of the duration"`

	Talon        Talon             `key:"talon" doc:"The Talons that run the strategy and the throttle."`
	Relays       map[string]Relays `key:"relays" doc:"Foreign relays, in classes: [relays.NAME]."`
	Git          map[string]Git    `key:"git" doc:"Git servers, in classes: [git.NAME]. A class must not have the name of a class of relays. If there are git servers, each state (30618) waits in purgatory until its git data is fetched from one."`
	Repositories Repositories      `key:"repositories" doc:"Repositories, and their events from before the run."`
	Publishers   Publishers        `key:"publishers" doc:"Publications during the run, drawn before it. Rates are those of the whole network."`
	Faults       []Fault           `key:"fault" doc:"Faults at given times. Random outages are keys of a class of relays."`
	Invariants   Invariants        `key:"invariants" doc:"Conditions that must hold. A run stops at the first that fails."`
}

// Talon describes the servers that run the strategy.
type Talon struct {
	Count         int      `key:"count" min:"1" max:"100" doc:"how many there are, all with the same modules"`
	Profile       string   `key:"profile" doc:"how they serve others: a name of talon devnet's profiles"`
	LatencyMS     float64  `key:"latency-ms" max:"60000" doc:"milliseconds from one to another"`
	CommitMS      float64  `key:"commit-ms" max:"60000" doc:"milliseconds until a received event is decided and on disk"`
	EventMS       float64  `key:"event-ms" max:"60000" doc:"milliseconds more for each event"`
	Held          float64  `key:"held" max:"1" doc:"share of announcements and states that wait in purgatory for git data"`
	HeldMedian    Duration `key:"held-median" doc:"how long they wait, log-normal; after 30 minutes they expire"`
	HeldSigma     float64  `key:"held-sigma" max:"5" doc:"spread of that"`
	Refused       float64  `key:"refused" max:"1" doc:"share of threads that the policy refuses"`
	Connections   int      `key:"connections" min:"1" max:"100000" doc:"relays that one is connected to at once"`
	Subscriptions int      `key:"subscriptions" min:"1" max:"10000" doc:"that one keeps open on a relay"`
	Push          bool     `key:"push" doc:"relays may be sent the events that they lack, if the strategy asks for it"`
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

	Program string `key:"program" json:",omitzero" one:"|khatru" doc:"the program that talon devnet runs for it; empty: one that behaves as the profile says. The lab always takes the profile."`

	Keeps   Duration `key:"keeps" json:",omitzero" doc:"how long it keeps an event, by created_at; replaceable and addressable events stay, here and in the next two; 0: as the profile says"`
	Refuses float64  `key:"refuses" json:",omitzero" max:"1" doc:"share of events that it refuses; 0: as the profile says"`
	Drops   float64  `key:"drops" json:",omitzero" max:"1" doc:"share of events that it accepts and sends to subscribers, and does not store; 0: as the profile says"`

	LatencyFile string `key:"latency-file" json:",omitzero" doc:"a file of measured latencies, in place of latency-ms and latency-sigma; its path is relative to the scenario"`
	Latencies   string `key:"latencies" json:",omitzero" doc:"the text of such a file: lines of relay,from,milliseconds"`
	OutageFile  string `key:"outage-file" json:",omitzero" doc:"a file of measured outages, in addition to those that are drawn"`
	Outages     string `key:"outages" json:",omitzero" doc:"the text of such a file: lines of relay,from,until or relay,from,until,status"`

	OutageEvery  Duration `key:"outage-every" doc:"mean time between two outages of one relay; 0: there are none"`
	OutageMedian Duration `key:"outage-median" doc:"how long one is, log-normal"`
	OutageSigma  float64  `key:"outage-sigma" max:"5" doc:"spread of that"`
	OutageStatus int      `key:"outage-status" max:"599" doc:"HTTP status during the outage; 0: connections are refused"`
	Flapping     int      `key:"flapping" max:"1000" doc:"number of short outages that make one outage; the relay is away for half of its time"`
	HalfOpen     float64  `key:"half-open" max:"1" doc:"share of outages in which connections stay open and bring nothing"`
	Dying        float64  `key:"dying" max:"1" doc:"share of these relays that are gone for ever at some time of the run"`
}

// Git is a class of git servers. A request is one fetch, whatever it is made of by HTTP.
type Git struct {
	Count     int     `key:"count" max:"10000" doc:"how many there are"`
	Weight    float64 `key:"weight" max:"1000000" doc:"how often repositories name one, against the others"`
	LatencyMS float64 `key:"latency-ms" max:"60000" doc:"milliseconds one way, the median over the servers"`
	Spread    float64 `key:"latency-sigma" max:"3" doc:"spread of that, log-normal"`
	Bandwidth int     `key:"bandwidth" min:"1" max:"1000000000000" doc:"bytes in a second that one request gets"`
	ServiceMS float64 `key:"service-ms" max:"600000" doc:"milliseconds that a request takes the server, in addition to the line"`
	Capacity  int     `key:"capacity" min:"1" max:"10000" doc:"requests that it works on at once; others wait for their turn"`
	Waiting   int     `key:"waiting" max:"1000000" doc:"requests that may wait; the server answers further ones with 503"`
	Rate      float64 `key:"rate" max:"1000000" doc:"requests in a minute that it takes from one address; 0 is no limit"`
	Burst     int     `key:"burst" min:"1" max:"10000" doc:"requests of an address that it takes at once, within the rate"`
	Refuse    string  `key:"refuse" one:"429|503|403|silence|slow" doc:"the answer to a request over the rate: a status, no answer at all, or an answer after 20 seconds"`
	RetryS    int     `key:"retry-after-s" max:"86400" doc:"seconds in the Retry-After of 429 and 503; 0: there is none"`
	BanS      int     `key:"ban-s" max:"86400" doc:"seconds for which an address that was over the rate gets only that answer"`
	Lying     bool    `key:"lying" doc:"it lists refs of which it gives no objects"`

	OutageEvery  Duration `key:"outage-every" doc:"mean time between two outages of one server; 0: there are none"`
	OutageMedian Duration `key:"outage-median" doc:"how long one is, log-normal"`
	OutageSigma  float64  `key:"outage-sigma" max:"5" doc:"spread of that"`
	OutageStatus int      `key:"outage-status" max:"599" doc:"HTTP status during the outage; 0: connections are refused"`
	HalfOpen     float64  `key:"half-open" max:"1" doc:"share of outages in which there is no answer at all"`
	Dying        float64  `key:"dying" max:"1" doc:"share of these servers that are gone for ever at some time of the run"`
}

// Repositories describes the repositories and their events before the run.
type Repositories struct {
	Count     int      `key:"count" min:"1" max:"1000000" doc:"how many there are"`
	Owners    int      `key:"owners" min:"1" max:"1000000" doc:"number of owners"`
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
	Copies    []int    `key:"copies" json:",omitzero" max:"1000000" doc:"in place of these two: how often an event is at one listed relay, at two, and so on, as [40, 30, 20, 10]"`
	Elsewhere int      `key:"elsewhere" json:",omitzero" max:"1000000" doc:"further repositories, which list none of the Talons"`
	Keepers   float64  `key:"keepers" json:",omitzero" max:"1" doc:"share of repositories in which another maintainer signs the states"`
	MoreRefs  int      `key:"more-refs" json:",omitzero" max:"64" doc:"branches and tags that a state names in addition to main"`
	Pulls     float64  `key:"pulls" json:",omitzero" max:"1" doc:"share of roots that are pull requests with a commit, whose git data is on the first honest git server of the repository; 0: a tenth are pull requests without one"`
	Statuses  float64  `key:"statuses" json:",omitzero" max:"1" doc:"share of comments of before the run that are statuses (1630 to 1633) by the owner instead"`
	GitMin    int      `key:"git-min" min:"1" max:"64" doc:"git servers that one names, if there are any"`
	GitMax    int      `key:"git-max" min:"1" max:"64" doc:"at most"`
	GitBytes  int      `key:"git-bytes" max:"1000000000" doc:"median size of the git data of a state"`
	GitSigma  float64  `key:"git-bytes-sigma" max:"4" doc:"spread of that, log-normal"`
}

// Publishers describes the events that are published during the run.
type Publishers struct {
	Roots      float64 `key:"roots-per-day" max:"10000000" doc:"new issues, patches and pull requests"`
	Comments   float64 `key:"comments-per-day" max:"10000000" doc:"comments in threads that exist; threads grow by their size"`
	States     float64 `key:"states-per-day" max:"10000000" doc:"new states (30618), each in place of the one before"`
	Edits      float64 `key:"edits-per-day" max:"10000000" doc:"new versions of announcements"`
	Moves      float64 `key:"moves-per-day" max:"10000000" doc:"announcements that list other relays; later events are at those"`
	New        float64 `key:"repositories-per-day" max:"10000000" doc:"new repositories"`
	Departures float64 `key:"departures-per-day" max:"10000000" doc:"repositories whose owners delete the announcement (NIP-09); nobody writes about them any more"`
	Deletions  float64 `key:"deletions-per-day" max:"10000000" doc:"comments that their authors delete (NIP-09)"`
	Noise      float64 `key:"noise-per-day" max:"10000000" doc:"events that do not belong to any repository here, at relays that are listed"`

	Diurnal   float64  `key:"diurnal" max:"1" doc:"how much more is published by day than by night"`
	CopiesMin int      `key:"copies-min" min:"1" max:"64" doc:"listed relays that an event is sent to"`
	CopiesMax int      `key:"copies-max" min:"1" max:"64" doc:"at most"`
	Copies    []int    `key:"copies" json:",omitzero" max:"1000000" doc:"in place of these two: how often an event is sent to one listed relay, to two, and so on, as [40, 30, 20, 10]"`
	SpreadS   float64  `key:"spread-s" max:"86400" doc:"seconds within which its copies are sent"`
	Direct    float64  `key:"direct" max:"1" doc:"share of events that are sent to a listed Talon too"`
	BackDated float64  `key:"back-dated" max:"1" doc:"share of events with a created_at of before they are sent"`
	BackBy    Duration `key:"back-dated-by" doc:"by how much at most"`
	Late      float64  `key:"late" max:"1" doc:"share of copies that reach their relay late"`
	LateBy    Duration `key:"late-by" doc:"by how much at most"`
	PushAfter Duration `key:"push-after" doc:"mean time from a state to the push of its git data"`
	Mirrored  float64  `key:"mirrored" max:"1" doc:"share of the further git servers of a repository that a push reaches; it always reaches one that is honest"`
	Unpushed  float64  `key:"unpushed" max:"1" doc:"share of states whose git data nobody ever pushes"`
}

// Fault is something that goes wrong at a time.
type Fault struct {
	What   string   `key:"what" one:"outage|half-open|partition|reset|slow|limits|restart|crash|swap|disk|skew" doc:"relays and git servers: outage, half-open (connections bring nothing), partition (from the Talons alone), reset (connections end), slow (latency by factor); relays: limits (other ones, by keys); Talons: restart, crash, swap (the strategy begins with the world as it is), disk (slower by factor), skew (the clock is wrong by seconds)"`
	At     Duration `key:"at" doc:"when it begins"`
	For    Duration `key:"for" doc:"how long it lasts"`
	Every  Duration `key:"every" doc:"from one to the next; 0: there is one"`
	Class  string   `key:"class" doc:"class of relays or of git servers; empty: all relays"`
	Share  float64  `key:"share" max:"1" doc:"share of them, or of the Talons"`
	Status int      `key:"status" max:"599" doc:"HTTP status of an outage; 0: connections are refused"`
	Factor float64  `key:"factor" min:"1" max:"1000000" doc:"of slow and disk"`
	SkewS  int      `key:"seconds" min:"-1000000000" max:"1000000000" doc:"of skew"`
	Keys   string   `key:"keys" json:",omitzero" doc:"of limits: TOML over the profile of each relay, such as '''limits.subscriptions = 10'''"`
}

// Invariants are the conditions that must hold.
type Invariants struct {
	Within   Duration `key:"within" doc:"a wanted event is here, if a relay with it could be reached for this time, or for the quiet time if that is shorter; 0: not checked"`
	Overlap  Duration `key:"overlap" doc:"how long two subscriptions on one relay may ask for the same value; 0: is not checked"`
	Gone     Duration `key:"gone" doc:"how long a subscription may ask for a repository that was deleted here; 0: not checked"`
	Steps    int      `key:"steps" max:"100000000" doc:"steps of the strategy in one second; timers for now must not use up its turns for a minute either; 0: neither is checked"`
	Quiet    int      `key:"quiet-requests" max:"100000000" doc:"REQs and NEG-OPENs on one relay in half an hour of the last quarter of the quiet time; 0: is not checked"`
	Settle   bool     `key:"complete" doc:"all wanted events that are available are here at the end"`
	BarredOK bool     `key:"barred" doc:"honest relays may be barred"`
	Data     Duration `key:"data-within" doc:"git data of a held event is here, if an honest server could have given it for this time; 0: not checked"`
	GitRest  Duration `key:"git-rest" doc:"longest time for which an honest git server is left alone; 0: not checked"`
}

// Limit returns the time after which a wanted event is late: Within, or the quiet time if that is
// shorter, since a run cannot show a longer one. It is 0 if nothing is late.
func (s *Scenario) Limit() Duration {
	if s.Quiet > 0 {
		return min(s.Invariants.Within, s.Quiet)
	}
	return s.Invariants.Within
}

const day = Duration(24 * time.Hour)

// Default is the scenario with the default of each key. It has no relays.
func Default() *Scenario {
	return &Scenario{
		Duration: day, Quiet: Duration(2 * time.Hour), Start: 1_767_225_600, Level: "wire",
		Talon: Talon{
			Count: 1, Profile: "ngit-grasp", LatencyMS: 20, CommitMS: 2, EventMS: 0.05, HeldMedian: Duration(time.Minute), HeldSigma: 1,
			Connections: relaysync.DefaultLimits.Connections, Subscriptions: relaysync.DefaultLimits.Subscriptions,
		},
		Relays: map[string]Relays{}, Git: map[string]Git{},
		Repositories: Repositories{
			Count: 20, Owners: 10, Zipf: 1, RelaysMin: 2, RelaysMax: 3, Talons: 1, Roots: 100, Comments: 2, States: true, History: 90 * day,
			Bytes: 300, Sigma: 1, CopiesMin: 1, CopiesMax: 3, GitMin: 1, GitMax: 2, GitBytes: 20_000, GitSigma: 2,
		},
		Publishers: Publishers{
			Roots: 40, Comments: 120, States: 20, Diurnal: 0.6, CopiesMin: 1, CopiesMax: 3, SpreadS: 2, BackBy: 2 * day, LateBy: Duration(2 * time.Hour),
			PushAfter: Duration(20 * time.Second), Mirrored: 1,
		},
		Invariants: Invariants{Within: Duration(30 * time.Hour), Overlap: Duration(30 * time.Minute), Gone: Duration(28 * time.Hour), Steps: 20_000, Quiet: 600, Settle: true},
	}
}

// SetDefaults makes a class of relays without faults.
func (r *Relays) SetDefaults() {
	*r = Relays{
		Profile: "default", Listed: true, Weight: 1, LatencyMS: 40, Spread: 0.5, Jitter: 0.1, Bandwidth: 5_000_000,
		OutageMedian: Duration(5 * time.Minute), OutageSigma: 1.5,
	}
}

// SetDefaults makes a class of git servers that refuse nothing.
func (g *Git) SetDefaults() {
	*g = Git{
		Weight: 1, LatencyMS: 40, Spread: 0.5, Bandwidth: 2_000_000, ServiceMS: 150, Capacity: 16, Waiting: 64, Burst: 10, Refuse: "429",
		OutageMedian: Duration(5 * time.Minute), OutageSigma: 1.5,
	}
}

// SetDefaults makes a fault that hits all.
func (f *Fault) SetDefaults() { *f = Fault{Share: 1, Factor: 10, For: Duration(10 * time.Minute)} }
