// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/kube/podlog"
	"github.com/csccm/csccm/installer/kube/selftest"
	"github.com/csccm/csccm/pkg/plural"
)

// Answers decides CCM-004.
func Answers(answers []Answer) Finding {
	if len(answers) == 0 {
		return Skipf("the release has no Pod")
	}
	var sick, silent []Object
	var how []string
	for i := range answers {
		a := &answers[i]
		o := Object{Kind: "Pod", Namespace: a.Pod.Namespace, Name: a.Pod.Name}
		switch {
		case a.Healthy && a.Metrics:
			how = append(how, "asked through the API server")
		case a.Healthy:
			o.Message = "serves /healthz but no /metrics"
			sick = append(sick, o)
		case a.Health != "":
			o.Message = "/healthz: " + a.Health
			sick = append(sick, o)
		case probed(a.Pod):
			// A firewall between control plane and node, or a role without pods/proxy, hides the Pod from
			// us, not from its kubelet.
			how = append(how, "by the kubelet's probe")
		default:
			o.Message = a.Err.Error()
			silent = append(silent, o)
		}
	}
	slices.Sort(how)
	switch {
	case len(sick) > 0:
		return Problemf("%s not healthy", plural.Count(len(sick), "Pod")).About(append(sick, silent...)...)
	case len(silent) > 0:
		return Unknownf("%s could not be asked", plural.Count(len(silent), "Pod")).About(silent...)
	}
	return Passf("%s, %s", plural.Count(len(answers), "Pod"), strings.Join(slices.Compact(how), " and "))
}

// probed reports whether the kubelet asks a Pod's /healthz and finds it well.
func probed(p *corev1.Pod) bool {
	for i := range p.Spec.Containers {
		r := p.Spec.Containers[i].ReadinessProbe
		if r != nil && r.HTTPGet != nil && strings.HasSuffix(r.HTTPGet.Path, "healthz") {
			return notReady(p) == ""
		}
	}
	return false
}

// Texts of the controller's log, and of its client's errors.
const (
	contactMade     = "CloudStack can be used"
	contactFailed   = "CloudStack cannot be used"
	contactAgain    = "CloudStack answers again"
	configWaits     = "A changed value of the cloud-config takes effect when the controller restarts"
	configUsed      = "Changed credentials or CA certificates are in use"
	errPrefix       = "cloudstack "
	errUnreached    = "cannot reach the API"
	errNoAnswer     = "no answer in time"
	errUntrusted    = "certificate is not trusted"
	recentlyEnough  = 10 * time.Minute
	podNetworkFix   = "from a node of the controller's Pods, try the URL with curl; check firewalls, routes and proxy.noProxy of the chart"
	podNameFix      = "the Pod uses the node's resolver with hostNetwork: make the name known to it, set dnsPolicy of the chart, or write an address into api-url"
	podTrustFix     = "give the chart the CA of CloudStack's certificate (caBundle.configMapName; csccm install --ca-file FILE does it)"
	podProxyFix     = "correct proxy.https of the chart, or add CloudStack's host to proxy.noProxy"
	podAnyContactFx = "the controller's log says more: `" + ShowLog + "`"
)

// contactOf says whether a Pod reached CloudStack, by its log.
type contactOf struct {
	pod      string
	last     *podlog.Line // that says whether CloudStack is reached; nil without one
	failure  *podlog.Line // the newest that tells that it is not
	again    *podlog.Line // that tells that an outage is over; nil without one since the newest failure
	failures int          // recently
}

func contactIn(log *Log, now time.Time) contactOf {
	c := contactOf{pod: log.Pod}
	for i := range log.Lines {
		l := &log.Lines[i]
		broken := unreachable(l)
		if broken && now.Sub(l.At) <= recentlyEnough {
			c.failures++
		}
		if broken || l.Message == contactFailed {
			c.failure, c.again = l, nil
		}
		if l.Message == contactAgain {
			c.again = l
		}
		if broken || l.Message == contactFailed || l.Message == contactMade || l.Message == contactAgain {
			c.last = l
		}
	}
	return c
}

// waiting returns the settings of the cloud-config that a Pod does not use yet, by its log: it names them when it begins to use
// the rest of a changed file.
func waiting(log *Log) []string {
	var named, out []string
	for i := range log.Lines {
		switch l := &log.Lines[i]; l.Message {
		case configWaits:
			named = append(named, l.Get("key"))
		case configUsed:
			named, out = nil, named
		}
	}
	return out
}

// works reports whether the newest line is no failure.
func (c *contactOf) works() bool { return c.last != c.failure }

// Contact reports whether the controller reaches CloudStack from where it runs, by what it wrote: it
// makes calls all the time, so silence about failures means that they work.
func Contact(logs []Log, now time.Time) Finding {
	if len(logs) == 0 {
		return Skipf("the release has no Pod that runs")
	}
	var down, over, last *contactOf
	lines := 0
	for i := range logs {
		lines += len(logs[i].Lines)
		c := contactIn(&logs[i], now)
		if c.last == nil {
			continue
		}
		recent := c.failure != nil && now.Sub(c.failure.At) <= recentlyEnough
		switch {
		case !c.works() && (recent || c.last.Message == contactFailed):
			down = &c
		case recent && c.again != nil: // a controller that began during the outage says after it that CloudStack can be used
			over = &c
		}
		if last == nil || !c.last.At.Before(last.last.At) {
			last = &c
		}
	}
	for i := range logs {
		if keys := waiting(&logs[i]); len(keys) > 0 && down == nil {
			return Problemf("the controller still works with the old %s", strings.Join(keys, ", ")).
				About(Object{Kind: "Pod", Name: logs[i].Pod, Message: "read the cloud-config's " + strings.Join(keys, ", ") + " when it started"}).Fix("restart the controller: `%s`", Restart)
		}
	}
	switch {
	case lines == 0:
		return Unknownf("the controller's log of the last hour is empty")
	case down != nil:
		return down.broken(now)
	case over != nil:
		return Passf("reached; it was not for %s, until %s ago", over.again.Get("after"), ago(over.again, now)).
			With("at", over.again.At.Format(time.RFC3339)).With("Pod "+over.pod, OneLine(over.failure.Get("err")))
	case last == nil:
		return Passf("no failed call in %s of the log", plural.Count(lines, "line"))
	case last.last.Message == contactMade:
		return Passf("%s", strings.TrimSpace(contactMade+": "+last.last.Get("scope"))).With("Pod", last.pod).With("at", last.last.At.Format(time.RFC3339))
	}
	f := Passf("no failed call for %s", now.Sub(last.last.At).Round(time.Minute))
	if last.failure != nil {
		f = f.With("last failure", last.failure.Get("err"))
	}
	return f
}

func ago(l *podlog.Line, now time.Time) time.Duration { return now.Sub(l.At).Round(time.Second) }

// broken is the finding about a Pod that does not reach CloudStack.
func (c *contactOf) broken(now time.Time) Finding {
	why := c.last.Get("err")
	if why == "" {
		why = c.last.Message
	}
	f := Problemf("%s", OneLine(why)).About(Object{Kind: "Pod", Name: c.pod, Message: fmt.Sprintf("%s ago, %s in %s",
		ago(c.last, now), plural.Count(c.failures, "failed call"), recentlyEnough)})
	if fix := c.last.Get("remedy"); fix != "" && !unreachable(c.last) {
		return f.Fix("%s", fix)
	}
	return f.Fix("%s", contactFix(why))
}

// SelfTest decides CS-006 by the result of a self-test in the cluster.
func SelfTest(r *selftest.Result) Finding {
	if r.Passed {
		f := Passf("the self-test in Pod %s on node %s has passed", r.Pod, r.Node).With("at", r.At.Format(time.RFC3339))
		for _, found := range r.Findings {
			f = f.With(found.Subject, found.Text)
		}
		return f
	}
	return Problemf("%s", OneLine(r.Problem)).About(Object{Kind: "Pod", Name: r.Pod, Message: "its self-test failed"}).Fix("%s", r.Fix)
}

// unreachable reports whether a line is about CloudStack not being reached.
func unreachable(l *podlog.Line) bool {
	text := l.Get("err")
	if text == "" {
		text = l.Message
	}
	return l.Error() && strings.Contains(text, errPrefix) &&
		(strings.Contains(text, errUnreached) || strings.Contains(text, errNoAnswer) || strings.Contains(text, errUntrusted))
}

func contactFix(why string) string {
	switch {
	case strings.Contains(why, "proxyconnect"):
		return podProxyFix
	case strings.Contains(why, "no such host"), strings.Contains(why, "lookup "):
		return podNameFix
	case strings.Contains(why, errUntrusted), strings.Contains(why, "x509"):
		return podTrustFix
	case strings.Contains(why, errUnreached), strings.Contains(why, errNoAnswer):
		return podNetworkFix
	}
	return podAnyContactFx
}

// Log is what one Pod of the controller logged in the last hour.
type Log struct {
	Pod   string
	Lines []podlog.Line
}

// Answer is what a Pod's own endpoints returned through the API server.
type Answer struct {
	Pod     *corev1.Pod
	Health  string // body of /healthz; "" when it could not be asked
	Healthy bool
	Metrics bool  // /metrics is there, if only to refuse a caller without rights
	Err     error // why it could not be asked
}
