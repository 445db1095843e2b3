package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"talon/cmd/internal/devnet"
	"talon/host/relaymodel"
)

// relaysFlag is the value of --relays: 2,strfry:3,./mine.toml:1.
type relaysFlag struct{ cfg *devnet.Config }

func (f relaysFlag) Type() string { return "list" }

func (f relaysFlag) String() string {
	parts := []string{}
	if f.cfg != nil && (f.cfg.Relays > 0 || len(f.cfg.Foreign) == 0) {
		parts = append(parts, strconv.Itoa(f.cfg.Relays))
	}
	if f.cfg != nil {
		for _, other := range f.cfg.Foreign {
			parts = append(parts, fmt.Sprintf("%s:%d", other.Name, other.Count))
		}
	}
	return strings.Join(parts, ",")
}

func (f relaysFlag) Set(text string) error {
	f.cfg.Relays, f.cfg.Foreign = 0, nil
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if n, err := strconv.Atoi(part); err == nil {
			f.cfg.Relays += n
			continue
		}
		name, number := part, "1"
		if i := strings.LastIndexByte(part, ':'); i >= 0 {
			name, number = part[:i], part[i+1:]
		}
		count, err := strconv.Atoi(number)
		if err != nil || name == "" {
			return fmt.Errorf("want a number, or a profile with a number such as strfry:3, not %q", part)
		}
		if name == "khatru" && count > 0 {
			// The real one is at hand.
			f.cfg.Relays += count
			continue
		}
		keys, err := readProfile(name)
		if err != nil {
			return err
		}
		f.cfg.Foreign = append(f.cfg.Foreign, devnet.Foreign{Name: strings.TrimSuffix(name[strings.LastIndexByte(name, '/')+1:], ".toml"), Keys: keys, Count: count})
	}
	return nil
}

// readProfile returns the text of a file that has a profile, or nothing for one that is built in.
func readProfile(name string) (keys string, err error) {
	if !strings.HasSuffix(name, ".toml") {
		_, err := relaymodel.Builtin(name)
		return "", err
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("read a profile: %w", err)
	}
	if _, err := relaymodel.Parse(text); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return string(text) + "\n", nil // a file without a key is not one that is built in
}

// checkServeArgs refuses flags of talon serve that the network sets itself.
func (o *devnetRun) checkServeArgs() error {
	for _, arg := range o.serveArgs {
		if !strings.HasPrefix(arg, "-") {
			continue // the value of a flag
		}
		switch name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "="); {
		case name == "data":
			return errors.New("--data cannot follow --: the data of this Talon is in a new folder, which is printed")
		case name == "listen":
			return errors.New("--listen cannot follow --: say with --talon where this Talon listens")
		case name == "plugins" && o.plugins != "":
			return errors.New("--plugins is there twice: before and after --")
		}
	}
	return nil
}

// describing are the options that a scenario has keys for.
var describing = []string{
	"relays", "bootstrap", "git-servers", "repos", "roots", "comments", "relays-per", "clones-per", "noise", "negentropy", "latency",
	"outage-every", "outage-for",
}

// partners refuses options that do nothing without others.
func (o *devnetRun) partners(given func(option string) bool) error {
	c := &o.net
	if o.scenario != "" {
		for _, option := range describing {
			if given(option) {
				return fmt.Errorf("the options --scenario and --%s cannot both be given: the scenario describes the network", option)
			}
		}
		return nil
	}
	for _, p := range []struct {
		option string
		there  bool
		want   string
	}{
		{"outage-for", c.OutageEvery > 0, "--outage-every: no relay is cut off without it"},
		{"git-turn", c.GitFailing > 0, "--git-failing: no git server fails without it"},
		{"comments", c.Roots > 0 || c.Comments == 0, "--roots above 0: there is nothing to comment on"},
		{"split", c.ClonesPer > 1 || c.Split == 0, "--clones-per above 1: one git server has all objects"},
		{"negentropy", c.Relays > 0, "a relay of khatru's in --relays: profiles say themselves who compares"},
		{"lose", c.Relays > 0, "a relay of khatru's in --relays: a profile says so itself (live.lost)"},
		{"rate-limit", c.Relays > 0, "a relay of khatru's in --relays: a profile says so itself (rate)"},
		{"max-limit", c.Relays > 0, "a relay of khatru's in --relays: a profile says so itself (limits.limit)"},
	} {
		if given(p.option) && !p.there {
			return fmt.Errorf("the option --%s needs %s", p.option, p.want)
		}
	}
	return nil
}

// checkGitData refuses a network without git servers for the modules of talon serve: with them, nothing is
// served without its git data.
func (o *devnetRun) checkGitData() error {
	c := &o.net
	git := c.Repos == 0 || c.GitServers > 0 && c.ClonesPer > 0
	if c.Scenario != nil {
		git = len(c.Scenario.Git) > 0
	}
	if o.serve && !git && o.plugins == "" && len(o.serveArgs) == 0 {
		return errors.New("without git servers (--git-servers, --clones-per, [git.NAME] of a scenario) the modules of talon serve hold every repository " +
			"until its git data comes, which is never: give --plugins a folder whose modules accept events without it, or flags of talon serve after --")
	}
	return nil
}
