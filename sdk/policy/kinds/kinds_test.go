package kinds_test

import (
	"strings"
	"testing"

	"talon/sdk/abi"
	"talon/sdk/module"
	"talon/sdk/policy"
	"talon/sdk/policy/kinds"
)

func TestClasses(t *testing.T) {
	for class, members := range map[kinds.Class][]int{
		kinds.Regular:     {1, 2, 4, 7, 999, 1059, 1616, 1634, 9999, 40000, 65535},
		kinds.Replaceable: {0, 3, 10000, 10002, 10316, 10318, 19999},
		kinds.Ephemeral:   {20000, 22242, 29999},
		kinds.Addressable: {30000, 30023, 30616, 30619, 39999},
		kinds.Git:         {1617, 1618, 1619, 1621, 1630, 1633, 10317, 30617, 30618},
	} {
		for _, kind := range members {
			if got := kinds.ClassOf(kind); got != class {
				t.Errorf("kind %d is %v, want %v", kind, got, class)
			}
		}
		if got, ok := kinds.ParseClass(class.String()); got != class || !ok || !strings.Contains(kinds.Names, class.String()) {
			t.Errorf("%v is read as %v", class, got)
		}
	}
	if _, ok := kinds.ParseClass("Git"); ok {
		t.Error("a name in other letters is a class")
	}
}

func settings(values ...string) policy.Config {
	return module.NewConfig(abi.Config{Settings: []abi.Setting{{Key: "k", Strings: values}}})
}

func TestSets(t *testing.T) {
	s, err := kinds.Parse(settings("7", "30000-30002", " 65535 "), "k")
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[int]bool{
		0: false, 6: false, 7: true, 8: false, 71: false, 29999: false, 30000: true, 30002: true, 30003: false, 65534: false, 65535: true,
	} {
		if s.Has(kind) != want {
			t.Errorf("kind %d: %v", kind, !want)
		}
	}
	if s, err := kinds.Parse(settings(), "k"); s != nil || err != nil || s.Has(0) {
		t.Errorf("an empty setting: %v, %v", s, err)
	}
	for _, wrong := range []string{"", "x", "-1", "65536", "9-1", "1-2-3"} {
		if _, err := kinds.Parse(settings("1", wrong), "k"); err == nil || !strings.Contains(err.Error(), `config k has "`+wrong+`": want a kind`) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func TestPerClass(t *testing.T) {
	got := map[kinds.Class]int64{}
	read := func(values ...string) error {
		return kinds.PerClass(settings(values...), "k", "bits", 256, func(c kinds.Class, n int64) { got[c] = n })
	}
	if err := read("git:0", "ephemeral: 16", "git:256"); err != nil || len(got) != 2 || got[kinds.Git] != 256 || got[kinds.Ephemeral] != 16 {
		t.Errorf("%v, %v", got, err)
	}
	for _, wrong := range []string{"", "git", "git:", "git:x", "git:-1", "git:257", "note:1", "1"} {
		if err := read(wrong); err == nil || !strings.Contains(err.Error(), "want class:number") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
