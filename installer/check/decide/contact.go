// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/installer/kube/podlog"
)

// Texts of the controller's log, and of its client's errors.
const (
	contactMade   = "CloudStack can be used"
	contactFailed = "CloudStack cannot be used"
	contactAgain  = "CloudStack answers again"
	configWaits   = "A changed value of the cloud-config takes effect when the controller restarts"
	configUsed    = "Changed credentials or CA certificates are in use"
	errPrefix     = "cloudstack "
	errUnreached  = "cannot reach the API"
	errNoAnswer   = "no answer in time"
	errUntrusted  = "certificate is not trusted"
)

// contactFixes are the remedies by what an error says, the most special first.
var contactFixes = []struct{ says, fix string }{
	{"proxyconnect", "correct proxy.https of the chart, or add CloudStack's host to proxy.noProxy"},
	{"lookup ", "the Pod uses the node's resolver with hostNetwork: make the name known to it, set dnsPolicy of the chart, or write an address into api-url"},
	{errUntrusted, "give the chart the CA of CloudStack's certificate (caBundle.configMapName; csccm install --ca-file FILE does it)"},
	{errUnreached, "from a node of the controller's Pods, try the URL with curl; check firewalls, routes and proxy.noProxy of the chart"},
	{errNoAnswer, "from a node of the controller's Pods, try the URL with curl; check firewalls, routes and proxy.noProxy of the chart"},
	{"", "the controller's log says more: `" + ShowLog + "`"},
}

// contactOf says whether a Pod reached CloudStack, by its log.
type contactOf struct {
	pod      string
	last     *podlog.Line // that says whether CloudStack is reached; nil without one
	failure  *podlog.Line // the newest that tells that it is not
	again    *podlog.Line // that tells that an outage is over; nil without one since the newest failure
	failures int          // recently
	// stale are the settings of the cloud-config that the Pod does not use yet: it names them when it begins to use the rest
	// of a changed file.
	stale []string
}

func contactIn(log *Log, now time.Time) *contactOf {
	c := &contactOf{pod: log.Pod}
	var named []string
	for i := range log.Lines {
		l := &log.Lines[i]
		switch broken := unreachable(l); {
		case broken || l.Message == contactFailed:
			c.last, c.failure, c.again = l, l, nil
			if broken && now.Sub(l.At) <= recentlyEnough {
				c.failures++
			}
		case l.Message == contactAgain:
			c.last, c.again = l, l
		case l.Message == contactMade:
			c.last = l
		case l.Message == configWaits:
			named = append(named, l.Get("key"))
		case l.Message == configUsed:
			named, c.stale = nil, named
		}
	}
	return c
}

// contact reports whether the controller reaches CloudStack from where it runs: by the self-test, or by what it wrote. It
// makes calls all the time, so silence about failures means that they work.
func contact(f *Facts) Finding {
	if f.SelfTest != nil {
		return selfTest(f)
	}
	if err := f.Err(Logs); err != nil {
		return Unread(err)
	}
	if len(f.Logs) == 0 {
		return Skipf("the release has no Pod that runs")
	}
	var down, over, last, stale *contactOf
	lines := 0
	for i := range f.Logs {
		lines += len(f.Logs[i].Lines)
		c := contactIn(&f.Logs[i], f.At)
		if len(c.stale) > 0 {
			stale = c
		}
		if c.last == nil {
			continue
		}
		recent := c.failure != nil && f.At.Sub(c.failure.At) <= recentlyEnough
		switch {
		case c.last == c.failure && (recent || c.last.Message == contactFailed):
			down = c
		case recent && c.again != nil: // a controller that began during the outage says after it that CloudStack can be used
			over = c
		}
		if last == nil || !c.last.At.Before(last.last.At) {
			last = c
		}
	}
	switch {
	case lines == 0:
		return Unknownf("the controller's log of the last hour is empty")
	case down != nil:
		return down.broken(f.At)
	case stale != nil:
		keys := strings.Join(stale.stale, ", ")
		return Problemf("the controller still works with the old %s", keys).
			About(Object{Kind: "Pod", Name: stale.pod, Message: "read the cloud-config's " + keys + " when it started"}).Fix("restart the controller: `%s`", Restart)
	case over != nil:
		return Passf("reached; it was not for %s, until %s ago", over.again.Get("after"), ago(over.again, f.At)).
			With("at", over.again.At.Format(time.RFC3339)).With("Pod "+over.pod, OneLine(over.failure.Get("err")))
	case last == nil:
		return Passf("no failed call in %s of the log", english.Plural(lines, "line", ""))
	case last.last.Message == contactMade:
		return Passf("%s", strings.TrimSpace(contactMade+": "+last.last.Get("scope"))).With("Pod", last.pod).With("at", last.last.At.Format(time.RFC3339))
	}
	out := Passf("no failed call for %s", f.At.Sub(last.last.At).Round(time.Minute))
	if last.failure != nil {
		out = out.With("last failure", last.failure.Get("err"))
	}
	return out
}

func ago(l *podlog.Line, now time.Time) time.Duration { return now.Sub(l.At).Round(time.Second) }

// broken is the finding about a Pod that does not reach CloudStack.
func (c *contactOf) broken(now time.Time) Finding {
	why := cmp.Or(c.last.Get("err"), c.last.Message)
	out := Problemf("%s", OneLine(why)).About(Object{Kind: "Pod", Name: c.pod, Message: fmt.Sprintf("%s ago, %s in %s",
		ago(c.last, now), english.Plural(c.failures, "failed call", ""), recentlyEnough)})
	if fix := c.last.Get("remedy"); fix != "" && !unreachable(c.last) {
		return out.Fix("%s", fix)
	}
	return out.Fix("%s", contactFix(why))
}

func contactFix(why string) string {
	for _, f := range contactFixes {
		if strings.Contains(why, f.says) {
			return f.fix
		}
	}
	return ""
}

func selfTest(f *Facts) Finding {
	r := f.SelfTest
	if !r.Passed {
		return Problemf("%s", OneLine(r.Problem)).About(Object{Kind: "Pod", Name: r.Pod, Message: "its self-test failed"}).Fix("%s", r.Fix)
	}
	out := Passf("the self-test in Pod %s on node %s has passed", r.Pod, r.Node).With("at", r.At.Format(time.RFC3339))
	for _, found := range r.Findings {
		out = out.With(found.Subject, found.Text)
	}
	return out
}

// unreachable reports whether a line is about CloudStack not being reached.
func unreachable(l *podlog.Line) bool {
	text := cmp.Or(l.Get("err"), l.Message)
	return l.Error() && strings.Contains(text, errPrefix) &&
		(strings.Contains(text, errUnreached) || strings.Contains(text, errNoAnswer) || strings.Contains(text, errUntrusted))
}
