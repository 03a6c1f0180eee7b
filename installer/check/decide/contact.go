// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"cmp"
	"regexp"
	"strings"
	"time"

	"github.com/csccm/csccm/installer/kube/podlog"
)

// Texts of the controller's log.
const (
	contactMade   = "CloudStack can be used"
	contactFailed = "CloudStack cannot be used"
	contactAgain  = "CloudStack answers again"
	configWaits   = "A changed value of the cloud-config takes effect when the controller restarts"
	configUsed    = "Changed credentials or CA certificates are in use"
)

// notReached matches the errors of the controller's client where CloudStack is not reached.
var notReached = regexp.MustCompile(`(?s)cloudstack .*(cannot reach the API|no answer in time|certificate is not trusted)`)

// A failed call that is older than this is over: the controller makes calls all the time.
const recentlyEnough = 10 * time.Minute

// contact reports whether the controller reaches CloudStack from where it runs, by the newest line of each Pod's log that says so.
func contact(f *Facts) Finding {
	if err := f.Err(Logs); err != nil {
		return Unread(err)
	}
	out, lines := Passf("no call fails"), 0
	for i := range f.Logs {
		pod := Object{Kind: "Pod", Name: f.Logs[i].Pod}
		failed, stale := lastContact(f.Logs[i].Lines)
		switch {
		case failed != nil && (failed.Message == contactFailed || f.At.Sub(failed.At) <= recentlyEnough):
			pod.Message = "said so " + f.At.Sub(failed.At).Round(time.Second).String() + " ago"
			return Problemf("%s", OneLine(cmp.Or(failed.Values["err"], failed.Message))).About(pod).Fix("%s", failed.Values["remedy"])
		case len(stale) > 0:
			keys := strings.Join(stale, ", ")
			pod.Message = "read the cloud-config's " + keys + " when it started"
			out = Problemf("the controller still works with the old %s", keys).About(pod).Fix("restart the controller: `%s`", restart)
		}
		lines += len(f.Logs[i].Lines)
	}
	switch {
	case len(f.Logs) == 0:
		return Skipf("the release has no Pod that runs")
	case lines == 0:
		return Unknownf("the controller's log of the last hour is empty")
	}
	return out
}

// lastContact returns the failed call that no success follows, and the settings of the cloud-config that the Pod does not use yet:
// it names them when it begins to use the rest of a changed file.
func lastContact(lines []podlog.Line) (failed *podlog.Line, stale []string) {
	var named []string
	for i := range lines {
		switch l := &lines[i]; {
		case l.Message == contactFailed || l.Error() && notReached.MatchString(cmp.Or(l.Values["err"], l.Message)):
			failed = l
		case l.Message == contactMade || l.Message == contactAgain:
			failed = nil
		case l.Message == configWaits:
			named = append(named, l.Values["key"])
		case l.Message == configUsed:
			named, stale = nil, named
		}
	}
	return failed, stale
}
