// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"

	"github.com/csccm/csccm/installer/check/decide"
)

const catCloudStack = "CloudStack"

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
				c, err := capabilitiesFact.get(ctx, e)
				return decide.Endpoint(e.CloudConfig, c, decide.Cause(err))
			},
		},
		{
			Code: "CS-002", Category: catCloudStack, Title: "Keys accepted", Severity: SeverityFatal, Phases: both(), Needs: []string{"CS-001"},
			What:   "CloudStack accepts the API key and its signature, and they are not an administrator's.",
			Why:    "CloudStack answers 401 to wrong or old keys, and to disabled or locked users and accounts. The controller needs only the role User.",
			Remedy: "check api-key and secret-key, and that user and account are enabled; registering new keys makes the old ones invalid at once",
			Run: func(ctx context.Context, e *Env) Finding {
				_, err := capabilitiesFact.get(ctx, e)
				apis, apisErr := apisFact.get(ctx, e)
				return whose(ctx, e, decide.Keys(err, apis, apisErr))
			},
		},
		{
			Code: "CS-003", Category: catCloudStack, Title: "Role allows what the controller calls", Severity: SeverityError, Phases: both(), Needs: []string{"CS-002"},
			What:   "Every API command that the controller calls is allowed to the role of the keys.",
			Why:    "Otherwise a missing command is noticed only when a Service or node needs it.",
			Remedy: "add the named commands to the role, or give the user the default role User",
			Run: func(ctx context.Context, e *Env) Finding {
				if len(e.RequiredCommands) == 0 {
					return decide.Skipf("the commands of the controller are not known here")
				}
				apis, err := apisFact.get(ctx, e)
				return decide.Commands(e.RequiredCommands, e.OptionalCommands, e.Losses, apis, err)
			},
		},
		{
			Code: "CS-004", Category: catCloudStack, Title: "Project, zone and VMs visible", Severity: SeverityError, Phases: both(), Needs: []string{"CS-002"},
			What:   "The project and zone of the cloud-config exist, and the keys see VMs there.",
			Why:    "In a wrong project or zone the VM of every node seems to be gone.",
			Remedy: "set project-id and zone in the cloud-config to those of the cluster's VMs, and make the user a member of the project",
			Run:    runScope,
		},
		{
			Code: "CS-005", Category: catCloudStack, Title: "Networks can balance load", Severity: SeverityWarning, Phases: both(), Needs: []string{"K8S-001", "CS-004"},
			What:   "The network of every node's default NIC offers load balancing, and a firewall or ACLs.",
			Why:    "A Service of type LoadBalancer gets no address in a network whose offering lacks Lb.",
			Remedy: "use a network offering with Lb, SourceNat and Firewall (isolated network) or Lb and NetworkACL (VPC tier) for the nodes; without LoadBalancer Services ignore this",
			Run:    by3(nodesFact, vmsFact, networksFact, decide.Networks),
		},
		{
			Code: "CS-006", Category: catCloudStack, Title: "API reachable from Pods", Severity: SeverityError, Phases: []Phase{PhaseInstalled}, Needs: []string{"K8S-001"},
			What:   "After an install the controller's self-test in a Pod has passed. Otherwise the controller's log of the last hour shows successful calls, or no call that could not reach CloudStack.",
			Why:    "Pods may use other name servers, proxies, firewalls and CA certificates than the machine that runs csccm.",
			Remedy: "the controller's log says why: `" + decide.ShowLog + "`",
			Run: func(ctx context.Context, e *Env) Finding {
				if e.SelfTest != nil {
					return decide.SelfTest(e.SelfTest)
				}
				return judge(ctx, e, logsFact, func(logs []decide.Log) Finding { return decide.Contact(logs, e.Clock.Now()) })
			},
		},
		{
			Code: "CS-007", Category: catCloudStack, Title: "API asked over TLS", Severity: SeverityWarning, Phases: both(),
			What:   "The api-url of the cloud-config is https://, or names this machine itself.",
			Why:    "Over http:// everybody on the network path can read the calls, including an administrator's password, and change the answers.",
			Remedy: "give the management server or a proxy before it a certificate, and set api-url to its https:// URL: csccm install --api-url {api-url} --overwrite-secret",
			Run:    func(_ context.Context, e *Env) Finding { return decide.TLS(e.CloudConfig) },
		},
		{
			Code: "CS-008", Category: catCloudStack, Title: "API's certificate is verified", Severity: SeverityWarning, Phases: both(),
			What:   "The cloud-config does not have ssl-no-verify = true.",
			Why:    "With ssl-no-verify any server can pretend to be CloudStack.",
			Remedy: "name the certificate that signs the API's with ca-file (csccm install --ca-file FILE --overwrite-secret), and remove ssl-no-verify",
			Run:    func(_ context.Context, e *Env) Finding { return decide.Verified(e.CloudConfig) },
		},
	}
}

func (e *Env) withoutCloudStack() Finding {
	if e.CloudStackErr != nil {
		f := decide.Problemf("%v", e.CloudStackErr)
		if r, known := errors.AsType[interface {
			error
			Remedy() string
		}](e.CloudStackErr); known {
			f = f.Fix("%s", r.Remedy())
		}
		return f
	}
	if e.NoCloudStack != "" {
		return decide.Skipf("%s", e.NoCloudStack)
	}
	return decide.Skipf("no CloudStack credentials: give --cloud-config FILE, or make Secret %s/%s", e.Namespace, e.SecretName)
}

// secrets are what must show nowhere.
func (e *Env) secrets() []string {
	var out []string
	if e.CloudConfig != nil {
		out = append(out, e.CloudConfig.APIKey, e.CloudConfig.SecretKey)
	}
	if d := e.facts.driverConfig.Load(); d != nil {
		out = append(out, d.APIKey, d.SecretKey)
	}
	return out
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

func runScope(ctx context.Context, e *Env) Finding {
	s := decide.ScopeFacts{}
	if e.CloudConfig != nil {
		s.Zone = e.CloudConfig.Zone
	}
	_, s.ProjectErr = e.facts.inventory.ProjectID(ctx)
	s.Zones, s.ZonesErr = e.facts.inventory.Zones(ctx)
	if s.ProjectErr == nil {
		s.VMs, s.VMsErr = vmsFact.get(ctx, e)
	}
	f := decide.Scope(s)
	if s.VMs != nil && s.VMs.Len() == 0 {
		nodes, _ := nodesFact.get(ctx, e) // only explain
		return e.misplaced(ctx, nodes, s.VMs, f)
	}
	return f
}
