// Package story runs stories of strategies. A story is a text with inputs, and below them the
// actions of the strategy. Package strategytest runs stories in go test, talon plugin test runs
// those of a module in any language, and talon lab run writes what it found as one.
//
// A file has blocks, separated by empty lines. A block has inputs, a line each, and after "----"
// the actions, as [Line] writes them. A line that begins with # is a remark.
//
//	# A relay that a repository names is connected to.
//	config max_relays 10
//	init
//	----
//
//	event 30617 30617:aa:lib relays wss://a
//	after 5s
//	----
//	at 5s
//	connect wss://a priority 1: named by 30617:aa:lib
//
// The inputs:
//
//	config KEY VALUE…           a setting; before init
//	limits NAME N NAME N…       of the host, in place of Limits: connections, subscriptions, filters,
//	                            values, historics, timers, actions, bytes; before init
//	seed N                      of random numbers, 1 unless a story sets another; before init
//	own URL…                    our own addresses; before init
//	relay URL [bootstrap] [wanted] [connected] [sub ID]… [historic ID]… [CAPABILITY…]   before init
//	repo ADDRESS… [level state] [relays URL…] [roots ID…] [authors KEY…]   a known repository; before init
//	init                        the world as it is
//	event KIND ADDRESS… [id ID…] [relays URL…] [level state] [from URL] [at TIME]   accepted here, one for each id
//	active ID… [at TIME] [by KEY…]  other events about these root events were accepted here, now or dated, by these authors
//	gone ADDRESS
//	connected URL [ended TIME] [last TIME] [anew] [CAPABILITY…]   negentropy yes|no, auth, max_subscriptions, max_filters, max_limit, max_message, max_values N
//	disconnected URL CLASS      a connection ended
//	failed URL CLASS [failures N] [retry TIME]   it could not be made
//	eose URL ID [events N] [new N] [oldest TIME]
//	closed URL ID CLASS
//	done URL ID [req] [incomplete CLASS] [need N] [new N] [kept N] [have N] [sent N] [oldest TIME]
//	                            a historic ended; by negentropy unless req
//	progress URL                the latest progress of a relay is written
//	after LENGTH                time passes, timers fire; each that does something is shown: at TIME
//
// A TIME counts from the beginning of the story, such as 1h30m or -5m. An ID has at most four
// digits. 1..120 is a range of ids, as 30617:aa:r1..120 is a range of addresses. The id all, of
// eose or done, repeats the line for each id without an answer, until there is none. The output
// shows the effects of timers, not the timers. It shows progress only on request. Filters that
// differ only in the name of a tag are written as one.
package story

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"talon/sdk/abi"
)

// Load makes a new instance of a strategy with settings, as an operator writes them.
type Load func(config map[string]any) (Step, error)

// failure is the panic of a story that cannot go on.
type failure struct{ error }

func failf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// Play runs a story and returns it with the answers that the strategy gives. An error says why it
// cannot be played to its end.
func Play(text string, load Load) (played string, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			panic(p)
		}
	}()
	play := &play{load: load, config: map[string]any{}, init: &abi.StepInit{Seed: 1}, asked: map[string][]string{}, progress: map[string]string{}}
	var out strings.Builder
	answers := false
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case line == "":
			answers = false
			fmt.Fprintln(&out)
		case answers:
		case line == "----":
			answers = true
			fmt.Fprintln(&out, line)
			for _, said := range play.said {
				fmt.Fprintln(&out, said)
			}
			play.said = nil
		default:
			fmt.Fprintln(&out, line)
			if !strings.HasPrefix(line, "#") {
				play.input(line)
			}
		}
	}
	if len(play.said) > 0 {
		return "", errors.New("the story ends before these are told: " + strings.Join(play.said, "\n"))
	}
	return out.String(), nil
}

// Difference shows the first lines in which two texts of a story differ.
func Difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	few := func(list []string) string { return strings.Join(list[i:min(len(list), i+12)], "\n\t") }
	return fmt.Sprintf("from line %d, want\n\t%s\ngot\n\t%s", i+1, few(a), few(b))
}

// play runs the inputs of a story.
type play struct {
	load     Load
	config   map[string]any
	init     *abi.StepInit
	player   *Player
	said     []string
	asked    map[string][]string // ids that await an eose, or are running, by the relay
	progress map[string]string   // the latest, as a line, by the relay
}

// step takes an input, and the immediate inputs that follow from it.
func (s *play) step(input abi.Input) {
	if s.player == nil {
		failf("the story has no init")
	}
	actions, err := s.player.Step(input)
	if err != nil {
		failf("%w", err)
	}
	s.say(actions)
	s.pass(0)
}

// pass lets time pass.
func (s *play) pass(millis int64) {
	const tooMany = "100,000 timers: does one that is set for now come again and again?"
	err := s.player.Pass(millis, 100_000, tooMany, func(before int64, actions []abi.StepAction) {
		n := len(s.said)
		s.say(actions)
		if millis > 0 && s.player.Now > before && len(s.said) > n {
			s.said = slices.Insert(s.said, n, "at "+Elapsed(s.player.Now-Start))
		}
	})
	if err != nil {
		failf("%w", err)
	}
}

func (s *play) say(actions []abi.StepAction) {
	for i := range actions {
		a := &actions[i]
		if a.Do == abi.DoProgress {
			s.progress[a.Relay] = storyLine(a)
		}
		if !shows(a) {
			continue
		}
		switch a.Do {
		case abi.DoSubscribe, abi.DoHistoric:
			s.answered(a.Relay, a.ID)
			s.asked[a.Relay] = append(s.asked[a.Relay], a.ID)
		case abi.DoUnsubscribe:
			s.answered(a.Relay, a.ID)
		case abi.DoDisconnect:
			delete(s.asked, a.Relay)
		}
		s.said = append(s.said, storyLine(a))
	}
}

// shows reports whether a story shows an action. It shows the effects of timers, and progress on
// request.
func shows(a *abi.StepAction) bool { return a.Do != abi.DoSetTimer && a.Do != abi.DoProgress }

// answered notes that an id of a relay is answered, or asked no more.
func (s *play) answered(relay, id string) {
	s.asked[relay] = slices.DeleteFunc(s.asked[relay], func(other string) bool { return other == id })
}

// each calls answer with an id of a relay, or, for the id all, with each that is
// still to be answered.
func (s *play) each(relay, id string, answer func(id string)) {
	if id != "all" {
		s.answered(relay, id)
		answer(id)
		return
	}
	for n := 0; len(s.asked[relay]) > 0; n++ {
		if n == 100_000 {
			failf("100,000 answers: is the same asked again and again?")
		}
		id := s.asked[relay][0]
		s.asked[relay] = s.asked[relay][1:]
		answer(id)
	}
}
