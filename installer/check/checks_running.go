// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/podlog"
	"github.com/csccm/csccm/installer/selftest"
)

// ---- health and metrics

func decideAnswers(answers []answerOf) Finding {
	if len(answers) == 0 {
		return skip("the release has no Pod")
	}
	var sick, silent []Object
	var how []string
	for i := range answers {
		a := &answers[i]
		o := Object{Kind: "Pod", Namespace: a.pod.Namespace, Name: a.pod.Name}
		switch {
		case a.healthy && a.metrics:
			how = append(how, "asked through the API server")
		case a.healthy:
			o.Message = "serves /healthz but no /metrics"
			sick = append(sick, o)
		case a.health != "":
			o.Message = "/healthz: " + a.health
			sick = append(sick, o)
		case probed(a.pod):
			// A firewall between control plane and node, or a role without pods/proxy, hides the Pod from
			// us, not from its kubelet.
			how = append(how, "by the kubelet's probe")
		default:
			o.Message = a.err.Error()
			silent = append(silent, o)
		}
	}
	slices.Sort(how)
	switch {
	case len(sick) > 0:
		return bad("%s not healthy", count(len(sick), "Pod")).about(append(sick, silent...)...)
	case len(silent) > 0:
		return unknown("%s could not be asked", count(len(silent), "Pod")).about(silent...)
	}
	return ok("%s, %s", count(len(answers), "Pod"), strings.Join(slices.Compact(how), " and "))
}

// probed tells whether the kubelet asks a Pod's /healthz and finds it well.
func probed(p *corev1.Pod) bool {
	for i := range p.Spec.Containers {
		r := p.Spec.Containers[i].ReadinessProbe
		if r != nil && r.HTTPGet != nil && strings.HasSuffix(r.HTTPGet.Path, "healthz") {
			return notReady(p) == ""
		}
	}
	return false
}

// ---- CloudStack from inside

// Texts of the controller's log, and of its client's errors.
const (
	contactMade     = "CloudStack can be used"
	contactFailed   = "CloudStack cannot be used"
	errPrefix       = "cloudstack "
	errUnreached    = "cannot reach the API"
	errNoAnswer     = "no answer in time"
	errUntrusted    = "certificate is not trusted"
	recentlyEnough  = 10 * time.Minute
	podNetworkFix   = "from a node of the controller's Pods, try the URL with curl; check firewalls, routes and proxy.noProxy of the chart"
	podNameFix      = "the Pod uses the node's resolver with hostNetwork: make the name known to it, set dnsPolicy of the chart, or write an address into api-url"
	podTrustFix     = "give the chart the CA of CloudStack's certificate (caBundle.configMapName; csccm install --ca-file FILE does it)"
	podProxyFix     = "correct proxy.http and proxy.https of the chart, or add CloudStack's host to proxy.noProxy"
	podAnyContactFx = "the controller's log says more: kubectl -n NAMESPACE logs POD"
)

// decideContact tells whether the controller reaches CloudStack from where it runs, by what it wrote: it
// makes calls all the time, so silence about failures means that they work.
func decideContact(logs []logOf, now time.Time) Finding {
	var last *podlog.Line
	var pod string
	failures, lines := 0, 0
	for _, log := range logs {
		lines += len(log.lines)
		for j := range log.lines {
			l := &log.lines[j]
			verdict := l.Message == contactMade || l.Message == contactFailed
			broken := unreachable(l)
			if broken && now.Sub(l.At) <= recentlyEnough {
				failures++
			}
			if (verdict || broken) && (last == nil || !l.At.Before(last.At)) {
				last, pod = l, log.pod
			}
		}
	}
	switch {
	case len(logs) == 0:
		return skip("the release has no Pod that runs")
	case last == nil && lines == 0:
		return unknown("the controller's log of the last hour is empty")
	case last == nil:
		return ok("no failed call in %s of the log", count(lines, "line"))
	case last.Message == contactMade:
		return ok("%s", strings.TrimSpace(contactMade+": "+last.Get("scope"))).evidence("Pod", pod).evidence("at", last.At.Format(time.RFC3339))
	case last.Message != contactFailed && now.Sub(last.At) > recentlyEnough:
		return ok("no failed call for %s", now.Sub(last.At).Round(time.Minute)).evidence("last failure", last.Get("err"))
	}
	why := last.Get("err")
	if why == "" {
		why = last.Message
	}
	f := bad("%s", oneLine(why)).about(Object{Kind: "Pod", Name: pod, Message: fmt.Sprintf("%s ago, %s in %s",
		now.Sub(last.At).Round(time.Second), count(failures, "failed call"), recentlyEnough)})
	if fix := last.Get("remedy"); fix != "" && !unreachable(last) {
		return f.fix("%s", fix)
	}
	return f.fix("%s", contactFix(why))
}

// decideSelfTest takes the word of a self-test in the cluster.
func decideSelfTest(r *selftest.Result) Finding {
	if r.Passed {
		f := ok("the self-test in Pod %s on node %s has passed", r.Pod, r.Node).evidence("at", r.At.Format(time.RFC3339))
		for _, found := range r.Findings {
			f = f.evidence(found.Subject, found.Text)
		}
		return f
	}
	return bad("%s", oneLine(r.Problem)).about(Object{Kind: "Pod", Name: r.Pod, Message: "its self-test failed"}).fix("%s", r.Fix)
}

// unreachable tells whether a line is about CloudStack not being reached.
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
