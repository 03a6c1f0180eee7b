// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/plural"
)

const catCloudStack = "CloudStack"

// The oldest release whose API the controller's calls fit, and those that are tested.
var (
	oldestCloudStack = [2]int{4, 16}
	newestCloudStack = [2]int{4, 22}
)

func cloudStackChecks() []Check {
	return []Check{
		{
			Code: "CS-001", Category: catCloudStack, Title: "API reachable", Severity: SeverityFatal, Phases: both(),
			What:   "The endpoint of the cloud-config answers as a CloudStack API, its certificate is trusted, and its release is supported.",
			Why:    "The controller can do nothing without it.",
			Remedy: "check api-url (it usually ends in /client/api), ca-file and the network between here and there",
			Run: func(ctx context.Context, e *Env) Finding {
				if e.CloudStack == nil {
					return e.withoutCloudStack()
				}
				c, err := e.facts.capabilities.get(ctx)
				return decideEndpoint(e.CloudConfig, c, cause(err))
			},
		},
		{
			Code: "CS-002", Category: catCloudStack, Title: "Keys accepted", Severity: SeverityFatal, Phases: both(), Needs: []string{"CS-001"},
			What:   "CloudStack accepts the API key and its signature, and they are not an administrator's.",
			Why:    "Wrong or old keys, and users or accounts that are disabled or locked, all look the same: 401. The controller needs role User only.",
			Remedy: "check api-key and secret-key, and that user and account are enabled; registering new keys makes the old ones invalid at once",
			Run: func(ctx context.Context, e *Env) Finding {
				_, err := e.facts.capabilities.get(ctx)
				apis, apisErr := e.facts.apis.get(ctx)
				return whose(ctx, e, decideKeys(err, apis, apisErr))
			},
		},
		{
			Code: "CS-003", Category: catCloudStack, Title: "Role allows what the controller calls", Severity: SeverityError, Phases: both(), Needs: []string{"CS-002"},
			What:   "Every API command that the controller calls is allowed to the role of the keys.",
			Why:    "A refused command shows only when a Service or node needs it.",
			Remedy: "add the named commands to the role, or give the user the default role User",
			Run: func(ctx context.Context, e *Env) Finding {
				if len(e.RequiredCommands) == 0 {
					return skipf("the commands of the controller are not known here")
				}
				apis, err := e.facts.apis.get(ctx)
				return decideCommands(e.RequiredCommands, e.OptionalCommands, apis, err)
			},
		},
		{
			Code: "CS-004", Category: catCloudStack, Title: "Project, zone and VMs visible", Severity: SeverityError, Phases: both(), Needs: []string{"CS-002"},
			What:   "The project and zone of the cloud-config exist, and the keys see VMs there.",
			Why:    "In a wrong project or zone every node looks as if its VM were gone.",
			Remedy: "set project-id and zone in the cloud-config to those of the cluster's VMs, and make the user a member of the project",
			Run:    runScope,
		},
		{
			Code: "CS-005", Category: catCloudStack, Title: "Networks can balance load", Severity: SeverityWarning, Phases: both(), Needs: []string{"K8S-001", "CS-004"},
			What:   "The network of every node's default NIC offers load balancing, and a firewall or ACLs.",
			Why:    "A Service of type LoadBalancer gets no address in a network whose offering lacks Lb.",
			Remedy: "use a network offering with Lb, SourceNat and Firewall (isolated network) or Lb and NetworkACL (VPC tier) for the nodes; without LoadBalancer Services ignore this",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge3(ctx, e.facts.nodes, e.facts.vms, e.facts.networks, decideNetworks)
			},
		},
		{
			Code: "CS-006", Category: catCloudStack, Title: "API reachable from Pods", Severity: SeverityError, Phases: []Phase{PhaseInstalled}, Needs: []string{"K8S-001"},
			What:   "After an install, the controller's self-test in a Pod has passed. Else the controller, which calls CloudStack all the time, says in its log of the last hour that it can, or writes of no call that could not reach it.",
			Why:    "Name service, proxy, firewall and trusted certificates of a Pod are others than those of the machine that csccm runs on.",
			Remedy: "the controller's log says why: " + showLog,
			Run: func(ctx context.Context, e *Env) Finding {
				if e.SelfTest != nil {
					return decideSelfTest(e.SelfTest)
				}
				return judge(ctx, e.facts.logs, func(logs []logOf) Finding { return decideContact(logs, e.Clock.Now()) })
			},
		},
		{
			Code: "CS-007", Category: catCloudStack, Title: "API asked over TLS", Severity: SeverityWarning, Phases: both(),
			What:   "The api-url of the cloud-config is https://, or names this machine itself.",
			Why:    "Over http:// everybody on the way can read the calls and change the answers; an administrator's login would show the password.",
			Remedy: "give the management server or a proxy before it a certificate, and set api-url to its https:// URL: `csccm install --api-url {api-url} --overwrite-secret`",
			Run:    func(_ context.Context, e *Env) Finding { return decideTLS(e.CloudConfig) },
		},
		{
			Code: "CS-008", Category: catCloudStack, Title: "API's certificate is verified", Severity: SeverityWarning, Phases: both(),
			What:   "The cloud-config does not have ssl-no-verify = true.",
			Why:    "With ssl-no-verify whoever answers in the place of CloudStack is believed.",
			Remedy: "name the certificate that signs the API's with ca-file (`csccm install --ca-file FILE --overwrite-secret`), and remove ssl-no-verify",
			Run:    func(_ context.Context, e *Env) Finding { return decideVerified(e.CloudConfig) },
		},
	}
}

// noConfig is the finding of checks of the cloud-config where there is none to look at.
func noConfig() Finding { return skipf("no cloud-config is known") }

func decideTLS(c *cloudstack.Config) Finding {
	switch {
	case c == nil:
		return noConfig()
	case credentials.PlainHTTP(c.APIURL):
		return problemf("%s is asked without TLS", c.APIURL)
	}
	return passf("%s", c.APIURL)
}

func decideVerified(c *cloudstack.Config) Finding {
	switch {
	case c == nil:
		return noConfig()
	case c.SSLNoVerify:
		return problemf("ssl-no-verify = true: any certificate is trusted")
	case c.CAFile != "":
		return passf("with ca-file")
	}
	return passf("with the trusted certificates of the system")
}

func (e *Env) withoutCloudStack() Finding {
	if e.CloudStackErr != nil {
		f := problemf("%v", e.CloudStackErr)
		if r, known := errors.AsType[interface {
			error
			Remedy() string
		}](e.CloudStackErr); known {
			f = f.Fix("%s", r.Remedy())
		}
		return f
	}
	if e.NoCloudStack != "" {
		return skipf("%s", e.NoCloudStack)
	}
	return skipf("no CloudStack credentials: give --cloud-config FILE, or make Secret %s/%s", e.Namespace, e.SecretName)
}

// secrets are what must show nowhere.
func (e *Env) secrets() []string {
	if e.CloudConfig == nil {
		return nil
	}
	out := []string{e.CloudConfig.APIKey, e.CloudConfig.SecretKey}
	if k := e.CloudConfig.PreviousRecordKey; k != "" { // who has it forges records
		out = append(out, k)
	}
	return out
}

func decideEndpoint(cfg *cloudstack.Config, c *cloudstack.Capabilities, err error) Finding {
	url := ""
	if cfg != nil {
		url = cfg.APIURL
	}
	if err != nil {
		e, known := errors.AsType[*cloudstack.Error](err)
		// Any refusal with CloudStack's own codes proves that CloudStack is there.
		if known && (e.Kind == cloudstack.KindAuth || e.Kind == cloudstack.KindNotPermitted || e.Kind == cloudstack.KindThrottled) {
			return passf("%s answers; its release is not shown to these keys", url).With("answer", e.Text)
		}
		return problemf("%s: %v", url, err).Fix("%s", credentials.Remedy(err))
	}
	f := passf("CloudStack %s at %s", c.Version, url).With("version", c.Version).With("url", url)
	v, known := releaseOf(c.Version)
	switch {
	case !known:
		return f
	case slices.Compare(v[:], oldestCloudStack[:]) < 0:
		return problemf("CloudStack %s is too old, want %d.%d or newer", c.Version, oldestCloudStack[0], oldestCloudStack[1]).Fix("upgrade CloudStack")
	case slices.Compare(v[:], newestCloudStack[:]) > 0:
		f.Outcome = Warning
		f.Message += fmt.Sprintf("; newer than the tested %d.%d", newestCloudStack[0], newestCloudStack[1])
		return f.Fix("look for a newer release of csccm")
	}
	return f
}

// releaseOf reads "4.22.0.0" as 4, 22.
func releaseOf(version string) (v [2]int, known bool) {
	parts := strings.Split(version, ".")
	if len(parts) < 2 {
		return v, false
	}
	for i := range v {
		n, err := strconv.Atoi(parts[i])
		if err != nil {
			return v, false
		}
		v[i] = n
	}
	return v, true
}

// whose adds the account and role of accepted keys, where the role may list its users.
func whose(ctx context.Context, e *Env, f Finding) Finding {
	if f.Outcome != OK && f.Outcome != Warning || e.CloudConfig == nil {
		return f
	}
	users, err := e.CloudStack.ListUsers(ctx, "", "", "")
	if err != nil {
		return f.With("account", "not shown to these keys")
	}
	for _, u := range users {
		if u.APIKey != e.CloudConfig.APIKey {
			continue
		}
		e.facts.owner.Store(&Owner{User: u.Username, Account: u.Account, Domain: u.Domain})
		return f.With("user", u.Username+", "+u.State).With("account", u.Account+" of domain "+u.Domain).
			With("role", fmt.Sprintf("%s (%s)", u.RoleName, u.RoleType))
	}
	return f.With("account", "the server does not say whose the keys are")
}

// adminCommands are commands that only a root administrator may call.
var adminCommands = []string{"createZone", "createRole", "createDomain"}

func decideKeys(capabilitiesErr error, apis map[string]cloudstack.API, apisErr error) Finding {
	for _, err := range []error{capabilitiesErr, apisErr} {
		if cloudstack.IsKind(err, cloudstack.KindAuth) {
			return problemf("%v", cause(err))
		}
	}
	if capabilitiesErr != nil && !cloudstack.IsKind(capabilitiesErr, cloudstack.KindNotPermitted) {
		return unread(capabilitiesErr)
	}
	for _, c := range adminCommands {
		if _, can := apis[c]; can {
			return warnf("accepted, but they are an administrator's (may call %s)", c).
				Fix("use keys of a user with role User: `csccm install` makes one")
		}
	}
	if apisErr != nil {
		return passf("accepted")
	}
	return passf("accepted; the role allows %d commands", len(apis))
}

func decideCommands(required, optional []string, apis map[string]cloudstack.API, err error) Finding {
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return unknownf("the role does not allow listApis, so its permissions cannot be read").
			Fix("allow listApis to the role, or compare the role with the list of commands in the documentation")
	}
	if err != nil {
		return unread(err)
	}
	var missing, lesser []string
	for _, c := range required {
		if _, allowed := apis[c]; allowed {
			continue
		}
		if slices.Contains(optional, c) {
			lesser = append(lesser, c)
		} else {
			missing = append(missing, c)
		}
	}
	switch {
	case len(missing) > 0:
		return problemf("the role refuses %s", strings.Join(append(missing, lesser...), ", "))
	case len(lesser) > 0:
		return warnf("the role refuses %s; the controller works without, less comfortably", strings.Join(lesser, ", "))
	}
	return passf("all %d commands", len(required))
}

func runScope(ctx context.Context, e *Env) Finding {
	s := scopeFacts{}
	if e.CloudConfig != nil {
		s.zone = e.CloudConfig.Zone
	}
	_, s.projectErr = e.facts.inventory.ProjectID(ctx)
	s.zones, s.zonesErr = e.facts.inventory.Zones(ctx)
	if s.projectErr == nil {
		s.vms, s.vmsErr = e.facts.vms.get(ctx)
	}
	f := decideScope(s)
	if s.vms != nil && s.vms.Len() == 0 {
		nodes, _ := e.facts.nodes.get(ctx) // only explain
		return e.misplaced(ctx, nodes, s.vms, f)
	}
	return f
}

type scopeFacts struct {
	zone       string // of the cloud-config, name or id
	projectErr error
	zones      []cloudstack.Zone
	zonesErr   error
	vms        *inventory.VMSnapshot
	vmsErr     error
}

func decideScope(s scopeFacts) Finding {
	if s.projectErr != nil {
		return problemf("%v", s.projectErr)
	}
	// The role of CKS' own users lacks listZones: then the zones of the VMs must do.
	if s.zone != "" && s.zonesErr == nil && !slices.ContainsFunc(s.zones, func(z cloudstack.Zone) bool {
		return strings.EqualFold(z.Name, s.zone) || strings.EqualFold(z.ID, s.zone)
	}) {
		var names []string
		for _, z := range s.zones {
			names = append(names, z.Name)
		}
		return problemf("zone %q does not exist; there are: %s", s.zone, strings.Join(names, ", "))
	}
	switch {
	case cloudstack.IsKind(s.vmsErr, cloudstack.KindNotPermitted), cloudstack.IsKind(s.vmsErr, cloudstack.KindNotFound), cloudstack.IsKind(s.vmsErr, cloudstack.KindInvalid):
		return problemf("%v", cause(s.vmsErr))
	case s.vmsErr != nil:
		return unread(s.vmsErr)
	case s.vms.Len() == 0:
		return problemf("no VMs in %s", s.vms.Scope())
	}
	return passf("%s", s.vms.Scope())
}

func decideNetworks(nodes []corev1.Node, vms *inventory.VMSnapshot, networks []cloudstack.Network) Finding {
	byID := make(map[string]*cloudstack.Network, len(networks))
	for i := range networks {
		byID[networks[i].ID] = &networks[i]
	}
	used := map[string]int{} // nodes by network
	for i := range nodes {
		vm, err := node.Match(vms, &nodes[i])
		if err == nil && len(vm.NICs) > 0 {
			used[vm.NICs[0].NetworkID]++
		}
	}
	var objects []Object
	var names []string
	for _, id := range slices.Sorted(maps.Keys(used)) {
		n := byID[id]
		if n == nil {
			objects = append(objects, Object{Kind: "Network", Name: id, Message: "of " + plural.Count(used[id], "node") + " is not visible to the keys"})
			continue
		}
		names = append(names, n.Name)
		if why := cannotBalance(n); why != "" {
			objects = append(objects, Object{Kind: "Network", Name: n.Name, Message: fmt.Sprintf("of %s: %s", plural.Count(used[id], "node"), why)})
		}
	}
	switch {
	case len(used) == 0:
		return skipf("no node has a VM with a network")
	case len(objects) > 0:
		return problemf("%s cannot balance load", plural.Count(len(objects), "network")).About(objects...)
	}
	return passf("%s", strings.Join(names, ", "))
}

// cannotBalance says why a network takes no public load balancer rules; "" when it does.
func cannotBalance(n *cloudstack.Network) string {
	switch {
	case !n.HasService("Lb"):
		return "its offering lacks Lb"
	case n.VPCID == "" && !n.HasService("Firewall"):
		return "its offering lacks Firewall"
	case n.VPCID != "" && !n.HasService("NetworkACL"):
		return "its offering lacks NetworkACL"
	}
	return ""
}
