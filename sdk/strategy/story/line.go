package story

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"talon/sdk/abi"
	"talon/sdk/strategy"
)

// Line writes an action as one line:
//
//	connect wss://r priority 2: named by 30617:ab:x
//	disconnect wss://r: nothing left
//	subscribe wss://r notes live {kinds 1 7; #e ab cd; since 5; limit 10} {…}
//	unsubscribe wss://r notes
//	historic wss://r notes negentropy startup page 500 push holdings {…}
//	timer batch 1700000005000
//	timer batch off
//	uncovered wss://r repositories 1 roots 300
//	progress wss://r past closed old-dates restart next 1700000005000
func Line(a *abi.StepAction) string { return style{}.line(a) }

// storyLine writes an action as a line of a story: times count from [Start], and what repeats is
// written once.
func storyLine(a *abi.StepAction) string { return style{story: true, start: Start}.line(a) }

// style says how actions are written.
type style struct {
	story bool  // times since start, and what repeats once
	start int64 // unix milliseconds
}

func (s style) line(a *abi.StepAction) string {
	var b strings.Builder
	word := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	switch a.Do {
	case abi.DoConnect:
		word("connect %s", a.Relay)
		if a.Priority != 0 {
			word(" priority %d", a.Priority)
		}
	case abi.DoDisconnect:
		word("disconnect %s", a.Relay)
	case abi.DoSubscribe:
		word("subscribe %s %s", a.Relay, a.ID)
		if a.Live {
			word(" live")
		}
	case abi.DoUnsubscribe:
		word("unsubscribe %s %s", a.Relay, a.ID)
	case abi.DoHistoric:
		word("historic %s %s %s", a.Relay, a.ID, [...]string{"auto", "negentropy", "req"}[a.Method])
	case abi.DoSetTimer:
		if a.At == 0 {
			return "timer " + a.ID + " off"
		}
		word("timer %s %d", a.ID, a.At)
	case abi.DoUncovered:
		word("uncovered %s repositories %d roots %d", a.Relay, a.Repositories, a.Roots)
		if a.Authors > 0 {
			word(" authors %d", a.Authors)
		}
	case abi.DoProgress:
		word("progress %s%s", a.Relay, s.progress(a))
	}
	if a.Purpose != abi.PurposeLive {
		word(" %s", [...]string{"", "startup", "reconnect", "daily"}[a.Purpose])
	}
	if a.Page != 0 {
		word(" page %d", a.Page)
	}
	if a.Push {
		word(" push")
	}
	if a.Holdings {
		word(" holdings")
	}
	if a.Reason != "" {
		word(": %s", a.Reason)
	}
	for i := 0; i < len(a.Filters); i++ {
		names := ""
		for s.story && i+1 < len(a.Filters) && sameButTagName(&a.Filters[i], &a.Filters[i+1]) {
			names += "#" + a.Filters[i].Tags[0].Name + " "
			i++
		}
		word(" {%s%s}", names, s.filter(&a.Filters[i]))
	}
	return b.String()
}

// progress writes a Progress of a relay.
func (s style) progress(a *abi.StepAction) string {
	text := ""
	for _, flag := range []struct {
		set  bool
		name string
	}{{a.Past, "past"}, {a.Closed, "closed"}, {a.OldDates, "old-dates"}, {a.Anew, "restart"}} {
		if flag.set {
			text += " " + flag.name
		}
	}
	switch {
	case a.NextCheck == 0:
	case s.story:
		text += " next " + Elapsed(a.NextCheck-s.start)
	default:
		text += fmt.Sprintf(" next %d", a.NextCheck)
	}
	return text
}

// sameButTagName reports whether filters differ in the name of their only tag, and in
// nothing else.
func sameButTagName(f, g *abi.Filter) bool {
	if len(f.Tags) != 1 || len(g.Tags) != 1 {
		return false
	}
	named := *g
	named.Tags = []abi.TagFilter{{Name: f.Tags[0].Name, Values: g.Tags[0].Values}}
	return reflect.DeepEqual(*f, named)
}

func (s style) filter(f *abi.Filter) string {
	var parts []string
	add := func(name string, values []string) {
		if s.story {
			values = runs(values)
		}
		if len(values) > 0 {
			parts = append(parts, name+" "+strings.Join(values, " "))
		}
	}
	add("ids", hexes(f.IDs))
	add("authors", hexes(f.Authors))
	var kinds []string
	for _, k := range f.Kinds {
		kinds = append(kinds, fmt.Sprint(k))
	}
	add("kinds", kinds)
	for _, t := range f.Tags {
		add("#"+t.Name, t.Values)
	}
	point := func(name string, at *int64) {
		switch {
		case at == nil:
		case s.story:
			parts = append(parts, name+" "+Elapsed(*at*1000-s.start))
		default:
			parts = append(parts, fmt.Sprintf("%s %d", name, *at))
		}
	}
	point("since", f.Since)
	point("until", f.Until)
	if f.Limit != 0 {
		parts = append(parts, fmt.Sprintf("limit %d", f.Limit))
	}
	return strings.Join(parts, "; ")
}

func hexes(ids [][32]byte) []string {
	var list []string
	for _, id := range ids {
		list = append(list, hex.EncodeToString(id[:]))
	}
	return list
}

// Elapsed writes a length of time in milliseconds: 90s is 1m30s, and 24h is 1d.
func Elapsed(millis int64) string {
	sign := ""
	if millis < 0 {
		sign, millis = "-", -millis
	}
	text := ""
	for _, unit := range []struct {
		name   string
		millis int64
	}{{"d", strategy.Day}, {"h", strategy.Hour}, {"m", strategy.Minute}, {"s", strategy.Second}, {"ms", 1}} {
		if n := millis / unit.millis; n > 0 {
			text += fmt.Sprint(n) + unit.name
		}
		millis %= unit.millis
	}
	if text == "" {
		return "0s"
	}
	return sign + text
}

// runs shortens ids to four digits, and values that count up to the first and the
// last of them.
func runs(values []string) []string {
	var out []string
	for i := 0; i < len(values); {
		end := i
		for end+1 < len(values) && next(short(values[end])) == short(values[end+1]) {
			end++
		}
		if end-i < 2 {
			out = append(out, short(values[i]))
			i++
			continue
		}
		out = append(out, short(values[i])+".."+digits(short(values[end])))
		i = end + 1
	}
	return out
}

var zeros = strings.Repeat("0", 60)

func short(value string) string {
	if len(value) == 64 && strings.HasSuffix(value, zeros) {
		return value[:4]
	}
	return value
}

// digits are those at the end of a value.
func digits(value string) string {
	return value[len(strings.TrimRight(value, "0123456789")):]
}

// next is the value that counts one up, "" if there is none of the same length.
func next(value string) string {
	number := digits(value)
	n, err := strconv.Atoi(number)
	if err != nil {
		return ""
	}
	up := fmt.Sprintf("%0*d", len(number), n+1)
	if len(up) != len(number) {
		return ""
	}
	return value[:len(value)-len(number)] + up
}
