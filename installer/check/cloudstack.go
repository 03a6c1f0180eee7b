// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/kube/podlog"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/service"
)

// The oldest release that supports the controller's API calls, and the newest that is tested.
var oldestCloudStack, newestCloudStack = apiversion.MajorMinor(4, 18), apiversion.MajorMinor(4, 22)

var cs001 = Check{
	Code:     "CS-001",
	Title:    "API reachable",
	Severity: SeverityFatal,
	Tries:    Sources{Capabilities},
	Judge:    endpoint,
	What: `The endpoint of the cloud-config answers as a CloudStack API, its certificate is trusted, and its release
		is supported.`,
	Why:    `The controller can do nothing without it.`,
	Remedy: `check api-url (it usually ends in /client/api), ca-file and the network to CloudStack`,
}

func endpoint(f *Facts) Finding {
	switch err := Cause(f.Err(Capabilities)); {
	case f.NoCloudErr != nil:
		return broken(f.NoCloudErr)
	case f.NoCloud != "":
		return Skipf("%s", f.NoCloud)
	case cloudstack.IsKind(err, cloudstack.KindAuth),
		cloudstack.IsKind(err, cloudstack.KindThrottled),
		err == nil && f.Capabilities == nil:
		// Only CloudStack refuses a call with these codes.
		return Passf("%s answers; these keys may not see its release", f.Config.APIURL)
	case err != nil:
		return Problemf("%s: %v", f.Config.APIURL, err).Fix("%s", credentials.Remedy(err))
	}

	c := f.Capabilities
	out := Passf("CloudStack %s at %s", c.Version, f.Config.APIURL).
		With("version", c.Version).
		With("url", f.Config.APIURL)
	switch v, err := apiversion.ParseGeneric(c.Version); {
	case err != nil:
	case v.LessThan(oldestCloudStack):
		return Problemf("CloudStack %s is too old, want %s or newer", c.Version, oldestCloudStack).
			Fix("upgrade CloudStack")
	case newestCloudStack.LessThan(apiversion.MajorMinor(v.Major(), v.Minor())):
		return Warnf("%s; newer than the tested %s", out.Message, newestCloudStack).
			Fix("look for a newer release of csccm")
	}

	return out
}

// adminCommands are commands that only a root administrator may call.
var adminCommands = []string{"createZone", "createRole", "createDomain"}

var cs002 = Check{
	Code:     "CS-002",
	Title:    "Keys accepted",
	Severity: SeverityFatal,
	Needs:    []string{"CS-001"},
	Tries:    Sources{Capabilities, APIs, Users, Created},
	Judge:    keys,
	What: `CloudStack accepts the API key and its signature, and they are not an administrator's. If csccm created
		their user, as its mark in CloudStack says, ConfigMap csccm-cloudstack lists what csccm created.`,
	Why: `CloudStack answers 401 to wrong or old keys, and to disabled or locked users and accounts. The controller
		needs only the role User.`,
	Remedy: `check api-key and secret-key, and that user and account are enabled; registering new keys makes the old
		ones invalid at once`,
}

func keys(f *Facts) Finding {
	asked, allowed := f.Err(Capabilities), f.Err(APIs)
	admin := slices.IndexFunc(adminCommands, f.APIs.Has)
	out := Passf("accepted; the role allows %d commands", len(f.APIs))
	switch {
	case cloudstack.IsKind(asked, cloudstack.KindAuth), cloudstack.IsKind(allowed, cloudstack.KindAuth):
		return Problemf("%v", Cause(cmp.Or(asked, allowed)))
	case asked != nil:
		return Unread(asked)
	case admin >= 0:
		out = Warnf("accepted, but they are an administrator's (may call %s)", adminCommands[admin]).
			Fix("use keys of a user with role User: `csccm install` makes one")
	case allowed != nil:
		out = Passf("accepted")
	}

	if o := f.Owner; o != nil {
		if c := f.Created; c != nil && len(c.Objects) == 0 && c.Mine(o) {
			out = Warnf("accepted, but ConfigMap %s/%s, the list of what csccm created, is lost", f.Namespace,
				credentials.CreatedConfigMap).
				Fix("csccm rotate-keys lists the users again, and gives the controller new keys; without the list " +
					"csccm uninstall --delete-user finds users by their mark, and neither account nor role")
		}
		out = out.With("user", o.Username+", "+o.State).
			With("account", o.Account+" of domain "+o.Domain).
			With("role", fmt.Sprintf("%s (%s)", o.RoleName, o.RoleType))
	}

	return out
}

var cs003 = Check{
	Code:   "CS-003",
	Title:  "Role allows what the controller calls",
	Needs:  []string{"CS-002"},
	Tries:  Sources{APIs},
	Judge:  commands,
	What:   `Every API command that the controller calls is allowed to the role of the keys.`,
	Why:    `Otherwise a missing command is noticed only when a Service or node needs it.`,
	Remedy: `add the named commands to the role, or give the user the default role User`,
}

func commands(f *Facts) Finding {
	switch err := f.Err(APIs); {
	case cloudstack.IsKind(err, cloudstack.KindNotPermitted):
		return Unknownf("the role does not allow listApis, so its permissions cannot be read").
			Fix("allow listApis to the role, or compare the role with the list of commands in the documentation")
	case err != nil:
		return Unread(err)
	}

	var missing, lesser []string
	for _, c := range provider.RequiredCommands {
		switch {
		case f.APIs.Has(c):
		case slices.Contains(provider.OptionalCommands, c):
			lesser = append(lesser, c)
		default:
			missing = append(missing, c)
		}
	}

	switch {
	case len(missing) > 0:
		return Problemf("the role refuses %s", listed(append(missing, lesser...)))
	case len(lesser) == 0:
		return Passf("all %d commands", len(provider.RequiredCommands))
	}

	out := Warnf("the role refuses %s; the controller works without them", listed(lesser))
	for _, c := range lesser {
		out = out.With("without "+c, provider.Losses[c])
	}

	return out
}

var cs004 = Check{
	Code:  "CS-004",
	Title: "Project, zone and VMs visible",
	Needs: []string{"CS-002"},
	Tries: Sources{Project, Zones, VMs, Places},
	Judge: scope,
	What:  `The project and zone of the cloud-config exist, and the keys see VMs there.`,
	Why:   `In a wrong project or zone the VM of every node seems to be gone.`,
	Remedy: `set project-id and zone in the cloud-config to those of the cluster's VMs, and make the user a member
		of the project`,
}

func scope(f *Facts) Finding {
	if err := f.Err(Project); err != nil {
		return Problemf("%v", Cause(err))
	}

	// CKS creates users whose role lacks listZones. Zones is then empty, and only the VMs show whether the zone is
	// right.
	var names, known []string
	for _, z := range f.Zones {
		names, known = append(names, z.Name), append(known, strings.ToLower(z.Name), z.ID)
	}

	if zone := f.Config.Zone; zone != "" && f.Err(Zones) == nil && !slices.Contains(known, strings.ToLower(zone)) {
		return Problemf("zone %q does not exist; there are: %s", zone, listed(names))
	}

	switch err := f.Err(VMs); {
	case cloudstack.IsKind(err, cloudstack.KindNotPermitted), cloudstack.IsKind(err, cloudstack.KindNotFound),
		cloudstack.IsKind(err, cloudstack.KindInvalid):
		return Problemf("%v", Cause(err))
	case err != nil:
		return Unread(err)
	case f.VMs.Len() == 0:
		return f.misplaced(Problemf("no VMs in %s", f.VMs.Scope()))
	}

	return Passf("%s", f.VMs.Scope())
}

var cs005 = Check{
	Code:     "CS-005",
	Title:    "Networks can balance load",
	Severity: SeverityWarning,
	Reads:    Sources{Nodes, VMs, Networks},
	Judge:    networks,
	What: "The network of every node's default NIC offers load balancing, and a firewall or ACLs; it is in " +
		"use, and CloudStack does not ask for its restart. Whether its virtual router runs is shown to " +
		"administrators only: `csccm test` sends traffic through it.",
	Why: `A Service of type LoadBalancer gets no address in a network whose offering lacks Lb.`,
	Remedy: "where the offering lacks something, use one with Lb, SourceNat and Firewall (isolated network) or Lb " +
		"and NetworkACL (VPC tier) for the nodes; restart the network in CloudStack with clean-up, which interrupts its " +
		"traffic, where its router does not run or lacks changes: `cmk restart network cleanup=true id=ID`; without " +
		"LoadBalancer Services ignore this",
}

func networks(f *Facts) Finding {
	used := map[string]int{} // number of nodes, by network
	for i := range f.Nodes {
		if vm, ok := f.VM(&f.Nodes[i]); ok && len(vm.NICs) > 0 {
			used[vm.NICs[0].NetworkID]++
		}
	}

	if len(used) == 0 {
		return Skipf("no node has a VM with a network")
	}

	var objects Objects
	var names []string
	for _, id := range slices.Sorted(maps.Keys(used)) {
		of := count(used[id], "node")
		n := Find(f.Networks, func(n *cloudstack.Network) bool { return n.ID == id })
		if n == nil {
			objects.addf("Network", id, "of %s is not visible to the keys", of)
			continue
		}

		name := n.Name
		if !n.ConserveMode && n.HasService("Lb") {
			name += " (without conserve mode: an address has either load balancer rules or port forwardings)"
		}

		names = append(names, name)
		switch {
		case n.State != "" && n.State != "Implemented" && n.State != "Setup": // Setup: a shared network
			objects.addf("Network", n.Name, "of %s is in state %s: its router does not run", of, n.State)
		case n.RestartRequired:
			objects.addf("Network", n.Name,
				"of %s is to be restarted, says CloudStack: its router may lack changes", of)
		}

		needed := []string{"Lb", "Firewall"}
		if n.VPCID != "" && !n.HasService("Firewall") {
			needed[1] = "NetworkACL"
		}

		if missing := slices.DeleteFunc(needed, n.HasService); len(missing) > 0 {
			objects.addf("Network", n.Name, "of %s: its offering lacks %s", of, strings.Join(missing, " and "))
		}
	}

	out := Passf("%s; these keys cannot see whether its router runs: csccm test sends traffic through it",
		listed(names))
	return out.Unless(objects, "network", "%s does not balance load as it should")
}

var cs007 = Check{
	Code:     "CS-007",
	Title:    "API asked over verified TLS",
	Severity: SeverityWarning,
	Judge:    tls,
	What:     `The api-url of the cloud-config is https://, or names this machine itself, and ssl-no-verify is not set.`,
	Why: `Over http:// everybody on the network path can read the calls, including an administrator's password, and
		change the answers. With ssl-no-verify any server can pretend to be CloudStack.`,
	Remedy: `give the management server or a proxy before it a certificate, and set api-url to its https:// URL:
		csccm install --api-url https://HOST/client/api --overwrite-secret; in place of ssl-no-verify name the
		certificate that signs the API's: csccm install --ca-file FILE --overwrite-secret`,
}

func tls(f *Facts) Finding {
	switch {
	case f.Config.APIURL == "":
		return Skipf("no cloud-config is known")
	case credentials.PlainHTTP(f.Config.APIURL):
		return Problemf("%s is asked without TLS", f.Config.APIURL)
	case f.Config.SSLNoVerify:
		return Problemf("ssl-no-verify = true: any certificate is trusted").
			Fix("name the certificate that signs the API's with ca-file (csccm install --ca-file FILE " +
				"--overwrite-secret), and remove ssl-no-verify")
	}
	return Passf("%s", f.Config.APIURL)
}

// Texts of the controller's log.
const (
	usable        = "CloudStack can be used"
	contactFailed = "CloudStack cannot be used"
	contactAgain  = "CloudStack answers again"
	configUsed    = "Changed credentials or CA certificates are in use"
)

// notReached matches errors of the controller's client if it cannot reach CloudStack.
var notReached = regexp.MustCompile(`(?s)cloudstack .*(cannot reach the API|no answer in time|certificate is not trusted)`)

// recentlyEnough is how long ago a failed call may be to count: the controller makes calls all the time.
const recentlyEnough = 10 * time.Minute

var cs006 = Check{
	Code:  "CS-006",
	Title: "API reachable from Pods",
	Phase: PhaseInstalled,
	Needs: []string{"K8S-001"},
	Tries: Sources{Logs, Events, Services},
	Judge: contact,
	What: `After an install the controller's self-test in a Pod has passed. Otherwise the controller's log of the
		last hour shows successful calls, or no call that could not reach CloudStack. A later success of the controller,
		in its log, an Event or the condition of a Service, ends a failure; so do ten minutes without another one.`,
	Why: `Pods may use other name servers, proxies, firewalls and CA certificates than the machine that runs csccm.`,
	Remedy: "the controller's log says why: `kubectl -n NAMESPACE logs -l app.kubernetes.io/instance=RELEASE " +
		"--tail=-1`; the chart values dnsPolicy, proxy and caBundle are for what its Pods use",
}

// contact decides whether the controller reaches CloudStack from its Pods, by the newest line about it in each Pod's
// log.
func contact(f *Facts) Finding {
	if err := f.Err(Logs); err != nil {
		return Unread(err)
	}

	lines, proof := 0, f.lastSuccess()
	for _, log := range f.Logs {
		failed := lastContact(log.Lines)

		// Each Pod retries its first contact until it succeeds, so a success of another Pod proves nothing about it.
		// All other calls are the leader's.
		if failed != nil &&
			(failed.Message == contactFailed || !failed.At.Before(proof) && f.ago(failed.At) <= recentlyEnough) {
			wait, _ := time.ParseDuration(cmp.Or(failed.Values["in"], failed.Values["retryIn"]))
			return Problemf("%s", OneLine(cmp.Or(failed.Values["err"], failed.Message))).
				About(objectf("Pod", "", log.Pod, "said so %s ago%s", f.ago(failed.At), f.until(failed.At.Add(wait)))).
				Fix("%s", failed.Values["remedy"])
		}
		lines += len(log.Lines)
	}

	switch {
	case len(f.Logs) == 0:
		return Skipf("the release has no Pod that runs")
	case lines == 0:
		return Unknownf("the controller's log of the last hour is empty")
	}

	return Passf("no call fails")
}

// lastSuccess returns when the controller last reported, for a Service or Node, that everything is done in CloudStack.
func (f *Facts) lastSuccess() (at time.Time) {
	for _, e := range f.Events {
		if FromCloud(&e) && slices.Contains(successes, e.Reason) && EventTime(&e).After(at) {
			at = EventTime(&e)
		}
	}
	for _, s := range f.Services {
		c := service.Ready(&s)
		if c.Status == metav1.ConditionTrue && c.LastTransitionTime.After(at) {
			at = c.LastTransitionTime.Time
		}
	}
	return at
}

// lastContact returns the last failed call, unless a success follows it.
func lastContact(lines []podlog.Line) (failed *podlog.Line) {
	for _, l := range lines {
		switch {
		case l.Message == contactFailed || l.Error() && notReached.MatchString(cmp.Or(l.Values["err"], l.Message)):
			failed = &l
		case slices.Contains([]string{usable, contactAgain, configUsed}, l.Message):
			failed = nil
		}
	}
	return failed
}
