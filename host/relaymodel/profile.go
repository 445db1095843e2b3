package relaymodel

import (
	"embed"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"talon/internal/tomlschema"
	"talon/internal/tomltable"
)

// Profile describes the behaviour of a relay. Start from [Default], or read one with
// [Parse]. The tags of the fields are the keys of the file, their bounds and their
// meaning; docs/reference-relay-profiles.md is made from them.
type Profile struct {
	Info        Info       `key:"info" doc:"The NIP-11 document."`
	Limits      Limits     `key:"limits" doc:"Limits of one client. 0 is no limit. The relay advertises the limits that are in info.limitation."`
	Refuse      Refuse     `key:"refuse" doc:"The answer to each kind of refused request: a table of by, text and code."`
	Answer      Answering  `key:"answer" doc:"The order and the form in which the relay sends stored events."`
	Live        Live       `key:"live" doc:"The way in which the relay sends new events."`
	Negentropy  Negentropy `key:"negentropy" doc:"Comparison (NIP-77)."`
	Auth        Auth       `key:"auth" doc:"Authentication (NIP-42)."`
	Event       Events     `key:"event" doc:"The answers to an EVENT."`
	Rate        Rates      `key:"rate" doc:"Limits of one client in a minute."`
	Connection  Connection `key:"connection" doc:"The ways in which connections end."`
	Outages     []Outage   `key:"outage" doc:"Times at which the relay is away, such as redeploys. The first one that applies counts."`
	Arrival     Arrival    `key:"arrival" doc:"The time at which events of other publishers reach this relay."`
	Keep        Keeping    `key:"keep" doc:"The events that the relay keeps. Replaceable and addressable events always stay."`
	Lies        Lies       `key:"lies" doc:"Dishonest behaviour of the relay."`
	Description string     `key:"description" doc:"One sentence for people."`
}

// Info is the NIP-11 document.
type Info struct {
	Served     bool           `key:"served" doc:"there is a document; otherwise 404"`
	Name       string         `key:"name" doc:"name"`
	Software   string         `key:"software" doc:"software"`
	Version    string         `key:"version" doc:"version"`
	NIPs       []int          `key:"nips" max:"65535" doc:"supported_nips"`
	Limitation map[string]any `key:"limitation" one:"max_message_length|max_subscriptions|max_subscription_values|max_filters|max_limit|default_limit|max_subid_length|max_event_tags|max_content_length|min_pow_difficulty|created_at_lower_limit|created_at_upper_limit|auth_required|payment_required|restricted_writes" doc:"the limits that it advertises, by their names in NIP-11; they may differ from the real limits"`
}

// Limits bounds the requests of one client.
type Limits struct {
	Subscriptions         int    `key:"subscriptions" max:"1000000" doc:"open at once on a connection"`
	SubscriptionsAnswered bool   `key:"subscriptions-answered" doc:"one subscription too many gets its stored events and EOSE before it is refused, and nothing live"`
	SubscriptionValues    int    `key:"subscription-values" max:"1000000000" doc:"values of the filters of all open subscriptions of a connection, as Talon counts them: each value, and one for a filter"`
	Filters               int    `key:"filters" max:"1000000" doc:"filters of one REQ"`
	Values                int    `key:"values" max:"1000000" doc:"values of one list of a filter"`
	Tags                  int    `key:"tags" max:"1000" doc:"tag conditions of one filter"`
	Limit                 int    `key:"limit" max:"1000000" doc:"greatest limit of a filter"`
	OverLimit             string `key:"over-limit" one:"clamp|quarter|refuse" doc:"a greater limit is lowered to the limit, lowered to a quarter of it, or refused"`
	DefaultLimit          int    `key:"default-limit" max:"1000000" doc:"limit of a filter that has none"`
	IDsUnlimited          bool   `key:"ids-unlimited" doc:"a filter with ids gets as many events as it names"`
	MessageBytes          int    `key:"message-bytes" max:"1073741824" doc:"bytes of one message"`
	SubscriptionID        int    `key:"subscription-id" max:"1000000" doc:"characters of a subscription's id"`
	Connections           int    `key:"connections" max:"1000000" doc:"at once; one more is answered with HTTP status 429"`
	EventBytes            int    `key:"event-bytes" max:"1073741824" doc:"bytes of one event"`
	EventTags             int    `key:"event-tags" max:"1000000" doc:"tags of one event"`
	ContentBytes          int    `key:"content-bytes" max:"1073741824" doc:"bytes of an event's content"`
	TagValue              int    `key:"tag-value" max:"1073741824" doc:"bytes of one value of a tag"`
}

// Answer describes how a relay refuses something.
type Answer struct {
	By   string // closed, notice, silence, drop, close, ok (EVENT alone)
	Text string
	Code int // of the close frame
}

// ways are how something can be refused.
const ways = "closed|notice|silence|drop|close"

// Refuse has the answer to each breach of a limit. In a text, {id} is replaced by the
// subscription's id, {size} by the actual value and {max} by the limit.
type Refuse struct {
	Subscriptions  Answer `key:"subscriptions" doc:"more subscriptions than limits.subscriptions"`
	SubValues      Answer `key:"subscription-values" doc:"more values than limits.subscription-values"`
	Filters        Answer `key:"filters" doc:"more filters than limits.filters"`
	Values         Answer `key:"values" doc:"more values than limits.values, or tags than limits.tags"`
	Limit          Answer `key:"limit" doc:"a greater limit than limits.limit, with over-limit = \"refuse\""`
	Message        Answer `key:"message" doc:"a message that cannot be read, or with an unknown verb"`
	Filter         Answer `key:"filter" doc:"a filter that cannot be read"`
	Size           Answer `key:"size" doc:"a message that is longer than limits.message-bytes"`
	SubscriptionID Answer `key:"subscription-id" doc:"an id that is longer than limits.subscription-id"`
	Repeated       Answer `key:"repeated" doc:"a REQ with the id and the filters of one that is open; by = \"\" answers it once more"`
	Every          Answer `key:"every-req" doc:"every REQ, where by is not empty: a relay that serves nothing"`
}

// Answering describes how stored events are sent.
type Answering struct {
	Order         string  `key:"order" one:"newest|newest-arrival|oldest" doc:"events of one second by id, by the latest arrival; or the oldest event first"`
	OrderNoLimit  string  `key:"order-without-limit" one:"same|oldest" doc:"the order for a filter without a limit; with oldest, a default limit also keeps the oldest events"`
	Filters       string  `key:"filters" one:"in-turn|interleaved|merged|union" doc:"several filters of a REQ one after the other, one event of each in turn, all in one order, or all in one order under the first filter's limit"`
	Repeats       bool    `key:"repeats" doc:"an event that matches two filters is sent twice"`
	AnyLetter     bool    `key:"any-letter" doc:"a filter finds stored events by the value of a tag under any letter: a filter for A finds a, too"`
	Eose          string  `key:"eose" one:"always|never|not-for-limit-zero" doc:"whether EOSE is sent"`
	EoseLost      float64 `key:"eose-lost" max:"1" doc:"share of REQs whose EOSE is not sent"`
	Duplicates    float64 `key:"duplicates" max:"1" doc:"share of events that are sent twice"`
	PerSecond     int     `key:"per-second" max:"1000000000" doc:"events of an answer that are sent in a second, EOSE behind them; 0: all at once"`
	CloseStops    bool    `key:"close-stops" doc:"a CLOSE ends an answer that is being sent, without EOSE; otherwise the rest comes after it"`
	ClosedByFound bool    `key:"closed-when-found" doc:"a REQ whose filters all have ids that were all found ends with an empty CLOSED after EOSE"`
	DelayMS       int     `key:"delay-ms" max:"86400000" doc:"milliseconds from a message to its answer"`
}

// Live describes how new events are sent.
type Live struct {
	Off    bool    `key:"off" doc:"no new events are sent"`
	Lost   float64 `key:"lost" max:"1" doc:"share of new events that a subscriber is not sent"`
	DelayS float64 `key:"delay-s" max:"86400" doc:"seconds until a new event is sent"`
	Older  bool    `key:"older-alone" doc:"a REQ that comes while a new event waits for delay-s is not sent this event"`
	Adds   bool    `key:"same-id-adds" doc:"a REQ with the id of an open one does not replace it"`
	Twice  bool    `key:"repeats" doc:"a subscription with two filters that match gets an event twice"`
}

// Negentropy is comparison (NIP-77).
type Negentropy struct {
	Supported    bool    `key:"supported" doc:"NEG-OPEN is answered; otherwise as a message that cannot be read"`
	FrameBytes   int     `key:"frame-bytes" max:"4194304" doc:"of one answer; 0 or 4096 and more"`
	Records      int     `key:"records" max:"1000000000" doc:"most events that are compared; 0 is no limit"`
	TooMany      string  `key:"too-many" doc:"text of the NEG-ERR about more of them"`
	TooManyCount bool    `key:"too-many-count" doc:"that NEG-ERR has the limit as a fourth element"`
	Sessions     int     `key:"sessions" max:"1000000" doc:"open at once on a connection; 0 is no limit"`
	SessionsText string  `key:"sessions-notice" doc:"text of the NOTICE about one more"`
	Unknown      string  `key:"unknown" doc:"text of the NEG-ERR to a session that is not open"`
	Wrong        string  `key:"wrong" doc:"text of the NEG-ERR to a message that cannot be read; empty: silence"`
	IdleS        float64 `key:"idle-s" max:"86400" doc:"seconds after which an idle session ends; 0: never"`
	IdleText     string  `key:"idle" doc:"text of the NEG-ERR then"`
	HonoursLimit bool    `key:"honours-limit" doc:"the limit of a filter counts"`
}

// Auth is authentication (NIP-42).
type Auth struct {
	Challenge string `key:"challenge" one:"never|connect|demand" doc:"when a challenge is sent"`
	Read      bool   `key:"read" doc:"reading needs a proof"`
	ReadText  string `key:"read-text" doc:"text of the CLOSED without one"`
	NegText   string `key:"compare-text" doc:"text of the NEG-ERR, if it differs from read-text"`
	Kinds     []int  `key:"kinds" max:"65535" doc:"only a filter of these kinds alone needs the proof, and such events are withheld from others; none: all"`
	LiveFree  bool   `key:"limit-zero-free" doc:"a REQ whose filters all have a limit of 0 needs no proof"`
	Write     bool   `key:"write" doc:"publishing needs a proof"`
	WriteText string `key:"write-text" doc:"text of the OK without one"`
	Proof     string `key:"proof" one:"accepted|refused" doc:"the result of a proof"`
	ProofText string `key:"proof-text" doc:"text of the OK to a proof that is refused"`
}

// Events describes the answers to an EVENT.
type Events struct {
	FutureS       int    `key:"future-s" max:"1000000000" doc:"seconds that an event may be dated ahead; 0 is no limit"`
	FutureText    string `key:"future" doc:"text of the OK then"`
	PastS         int    `key:"past-s" max:"1000000000" doc:"seconds that an event may be old; 0 is no limit"`
	PastText      string `key:"past" doc:"text of the OK then"`
	DuplicateText string `key:"duplicate" doc:"text of the OK, true, to an event that is here"`
	ReplacedOK    bool   `key:"replaced-ok" doc:"the OK to an event of which there is a newer version is true"`
	ReplacedText  string `key:"replaced" doc:"text of that OK"`
	DeletedOK     bool   `key:"deleted-ok" doc:"the OK to an event that its author deleted is true"`
	DeletedText   string `key:"deleted" doc:"text of that OK"`
	Deletes       string `key:"deletes" one:"never|by-id|by-id-and-address" doc:"which tags of a deletion (NIP-09) count: none, e, or e and a"`
	TooLargeText  string `key:"too-large" doc:"text of the OK to an event that breaks a limit of [limits]"`
	TooLargeBy    string `key:"too-large-by" one:"ok|notice|silence" doc:"the form of that answer"`
	RefusedText   string `key:"refused" doc:"text of the OK, false, to every event; empty: events are stored"`
	Silent        bool   `key:"silent" doc:"an EVENT that cannot be read gets no answer"`
}

// Rates bounds what a client may do in a minute. A rate of 0 is no limit.
type Rates struct {
	Messages    Rate `key:"messages" doc:"messages of a connection"`
	Requests    Rate `key:"requests" doc:"REQs, COUNTs and NEG-OPENs of a connection"`
	Events      Rate `key:"events" doc:"EVENTs of a connection; its by is ok where the text is an OK"`
	Connections Rate `key:"connections" doc:"connections of an address; its by is drop (after the upgrade) or status (HTTP status of code)"`
}

// Rate is a bucket that is refilled.
type Rate struct {
	PerMinute float64 `key:"per-minute" max:"1000000000" doc:"refill"`
	Burst     int     `key:"burst" max:"1000000000" doc:"capacity of the bucket; 0: as many as in a minute, and at least one"`
	By        string  `key:"by" one:"closed|notice|silence|drop|close|ok|delay|status" doc:"the answer to more than that; delay answers later"`
	Text      string  `key:"text" doc:"text of that answer"`
	Code      int     `key:"code" max:"4999" doc:"code of the close frame, or HTTP status"`
}

// Connection describes how connections end.
type Connection struct {
	Compression  bool    `key:"compression" doc:"messages are compressed if the client offers it"`
	CompressFrom int     `key:"compress-from" max:"1073741824" doc:"bytes of a message from which it is compressed"`
	DropAtOnce   bool    `key:"drop-at-once" doc:"a connection is dropped as soon as it is accepted"`
	DropBytes    int     `key:"drop-bytes" max:"1000000000" doc:"the relay drops a connection after it has sent this number of bytes; 0: never"`
	DropMessages int     `key:"drop-messages" max:"1000000000" doc:"the same for messages"`
	DropSeconds  float64 `key:"drop-seconds" max:"1000000000" doc:"the same for seconds"`
	DropCode     int     `key:"drop-code" max:"4999" doc:"code of the close frame then; 0: no frame"`
	IdleSeconds  float64 `key:"idle-seconds" max:"1000000000" doc:"the relay drops a connection whose client was silent for this time; 0: never"`
	CloseOnLeave bool    `key:"close-frame" doc:"an outage ends connections with a close frame"`
}

// Outage is a time at which the relay is away.
type Outage struct {
	AfterSeconds float64 `key:"after-s" max:"1000000000" doc:"seconds from the relay's start"`
	ForSeconds   float64 `key:"for-s" max:"1000000000" doc:"seconds that it lasts"`
	EverySeconds float64 `key:"every-s" max:"1000000000" doc:"seconds from one to the next; 0: there is one"`
	Status       int     `key:"status" max:"599" doc:"HTTP status during the outage; 0: connections are refused"`
}

// Arrival describes when events that others publish reach this relay.
type Arrival struct {
	Late  float64 `key:"late" max:"1" doc:"share of events that come late, with their old dates"`
	LateS float64 `key:"late-s" max:"1000000000" doc:"seconds that they are late"`
}

// Lies describes how a relay is dishonest.
type Lies struct {
	Omits      float64 `key:"omits" max:"1" doc:"share of its events that it never sends, though it accepts and compares them"`
	Claims     int     `key:"claims" max:"1000000" doc:"ids of events that it claims in comparisons and does not have"`
	ForgedIDs  float64 `key:"forged-ids" max:"1" doc:"share of events that are sent with another id"`
	ForgedSigs float64 `key:"forged-signatures" max:"1" doc:"share of events that are sent with a wrong signature"`
	Unasked    int     `key:"unasked" max:"1000000" doc:"events that it sends with the answer to each REQ and that the REQ does not ask for"`
}

// Default returns a relay that follows the NIPs, has only a name in its NIP-11 document,
// and has no limits.
func Default() *Profile {
	return &Profile{
		Keep:       Keeping{Text: "blocked: not here"},
		Info:       Info{Served: true, Name: "relay", NIPs: []int{1, 9, 11, 77}},
		Limits:     Limits{OverLimit: "clamp"},
		Answer:     Answering{Order: "newest", OrderNoLimit: "same", Filters: "merged", Eose: "always", CloseStops: true},
		Negentropy: Negentropy{Supported: true, FrameBytes: 60_000, TooMany: "blocked: too many records", Unknown: "closed: no such session", Wrong: "error: wrong message"},
		Auth:       Auth{Challenge: "never", Proof: "accepted", ReadText: "auth-required: prove who you are", WriteText: "auth-required: prove who you are", ProofText: "restricted: not you"},
		Event: Events{
			FutureText: "invalid: created_at is too late", PastText: "invalid: created_at is too early", DuplicateText: "duplicate: already have this event",
			ReplacedText: "replaced: have newer event", DeletedText: "blocked: this event was deleted", Deletes: "by-id-and-address",
			TooLargeText: "invalid: the event is too large", TooLargeBy: "ok",
		},
		Rate: Rates{
			Messages:    Rate{By: "notice", Text: "rate-limited: slow down"},
			Requests:    Rate{By: "closed", Text: "rate-limited: slow down"},
			Events:      Rate{By: "ok", Text: "rate-limited: slow down"},
			Connections: Rate{By: "status", Code: 429},
		},
		Refuse: Refuse{
			Subscriptions:  Answer{By: "closed", Text: "error: too many subscriptions"},
			Filters:        Answer{By: "closed", Text: "invalid: too many filters"},
			Values:         Answer{By: "closed", Text: "invalid: filter too large"},
			Limit:          Answer{By: "closed", Text: "invalid: limit too high"},
			Message:        Answer{By: "notice", Text: "invalid: cannot read the message"},
			Filter:         Answer{By: "closed", Text: "invalid: cannot read the filter"},
			Size:           Answer{By: "close", Text: "message too large", Code: 1009},
			SubscriptionID: Answer{By: "closed", Text: "invalid: subscription id too long"},
		},
	}
}

//go:embed profiles/*.toml faults/*.toml
var files embed.FS

// Names returns the names of the embedded profiles of relays that exist, in
// alphabetical order.
func Names() []string { return namesIn("profiles") }

// Faults returns the names of the embedded profiles of relays with a fault.
func Faults() []string { return namesIn("faults") }

func namesIn(dir string) (names []string) {
	list, err := files.ReadDir(dir)
	if err != nil {
		panic(err) // they are embedded
	}
	for _, f := range list {
		names = append(names, strings.TrimSuffix(f.Name(), ".toml"))
	}
	slices.Sort(names)
	return names
}

// Builtin returns an embedded profile.
func Builtin(name string) (*Profile, error) {
	dir := "profiles/"
	if slices.Contains(Faults(), name) {
		dir = "faults/"
	}
	text, err := files.ReadFile(dir + name + ".toml")
	if err != nil {
		return nil, fmt.Errorf("there is no profile %q: want one of %s", name, strings.Join(slices.Concat(Names(), Faults()), ", "))
	}
	p, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", name, err)
	}
	return p, nil
}

// Honest reports whether clients can get all events of such a relay: it is reachable at
// times, and neither withholds events nor changes them.
func (p *Profile) Honest() bool {
	away := slices.ContainsFunc(p.Outages, func(o Outage) bool { return o.AfterSeconds == 0 && o.EverySeconds == 0 })
	l := &p.Lies
	return !away && !p.Connection.DropAtOnce && p.Refuse.Every.By == "" && l.Omits == 0 && l.ForgedIDs == 0 && l.ForgedSigs == 0
}

// maxText bounds the text of a profile.
const maxText = 64 << 10

// Parse reads the text of a profile. Absent keys are as in [Default]. An error is one
// sentence with the line, the key and what is allowed.
func Parse(text []byte) (*Profile, error) { return Default().With(text) }

// With returns the profile with the keys of a text replaced. A list or an answer is
// replaced as a whole.
func (p *Profile) With(text []byte) (*Profile, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("the profile has more than %d bytes", maxText)
	}
	changed := *p
	if err := tomlschema.Decode(text, &changed, special); err != nil {
		return nil, err
	}
	if err := changed.check(); err != nil {
		return nil, err
	}
	return &changed, nil
}

// check refuses values that contradict each other.
func (p *Profile) check() error {
	if f := p.Negentropy.FrameBytes; f != 0 && f < 4096 {
		return fmt.Errorf("negentropy.frame-bytes = %d: want 0, or 4096 and more", f)
	}
	for i, o := range p.Outages {
		if o.ForSeconds <= 0 || o.EverySeconds > 0 && o.EverySeconds <= o.ForSeconds {
			return fmt.Errorf("outage[%d]: want for-s above 0, and every-s above for-s where it is given", i+1)
		}
	}
	if p.Arrival.Late > 0 && p.Arrival.LateS <= 0 {
		return errors.New("arrival.late needs arrival.late-s: events that are late by no time are not late")
	}
	return nil
}

// special reads what only profiles have.
func special(d *tomlschema.Decoder, raw tomltable.Value, into reflect.Value, tag reflect.StructTag, path string) (bool, error) {
	switch into.Interface().(type) {
	case Answer:
		keys, ok := raw.Table()
		if !ok {
			return true, tomlschema.Wrong(raw, path, `a table such as { by = "closed", text = "…" }`)
		}
		return true, answer(d, keys, into.Addr().Interface().(*Answer), path)
	case map[string]any:
		return true, limitation(raw, into, tag, path)
	}
	return false, nil
}

// answer decodes the answer to a breach. Missing keys are zero, not the default.
func answer(d *tomlschema.Decoder, keys tomltable.Table, a *Answer, path string) error {
	*a = Answer{}
	for _, key := range keys.Keys() {
		var err error
		switch key {
		case "by":
			err = d.Value(keys[key], reflect.ValueOf(&a.By).Elem(), `one:"`+ways+`|"`, path+".by")
		case "text":
			err = d.Value(keys[key], reflect.ValueOf(&a.Text).Elem(), "", path+".text")
		case "code":
			err = d.Value(keys[key], reflect.ValueOf(&a.Code).Elem(), `max:"4999"`, path+".code")
		default:
			err = tomlschema.Wrong(keys[key], path+"."+key, "one of the keys by, code, text")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// limitation reads what is advertised: numbers and booleans.
func limitation(raw tomltable.Value, into reflect.Value, tag reflect.StructTag, path string) error {
	keys, ok := raw.Table()
	if !ok {
		return tomlschema.Wrong(raw, path, "a table")
	}
	names := strings.Split(tag.Get("one"), "|")
	all := map[string]any{}
	for _, key := range keys.Keys() {
		if !slices.Contains(names, key) {
			return tomlschema.Wrong(keys[key], path+"."+key, "one of the keys "+strings.Join(names, ", "))
		}
		var number int64
		var flag bool
		switch {
		case keys[key].Decode(&number) == nil:
			all[key] = number
		case keys[key].Decode(&flag) == nil:
			all[key] = flag
		default:
			return tomlschema.Wrong(keys[key], path+"."+key, "a whole number, or true or false")
		}
	}
	into.Set(reflect.ValueOf(all))
	return nil
}
