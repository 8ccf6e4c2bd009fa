// A Kubernetes control plane in one program: the first argument names the part to run, and the
// others are those of that part.
//
// One program instead of four links the libraries that they share once: a third of the size, and
// one file to build, to cache and to start.
package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"sort"
	"strings"
	_ "time/tzdata" // CronJobs and certificates must not depend on the machine's own zones

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

// What a shell returns for a command that was called in a wrong way.
const wrongUsage = 64

const signingKeyBits = 2048

var parts = map[string]func() int{
	"etcd":                    runStore,
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllers.NewControllerManagerCommand()) },
	"kwok":                    func() int { return outcome("kwok", runKwok(signals.SetupSignalContext())) },
	"signing-key":             func() int { return outcome("signing-key", writeSigningKey(os.Stdout)) },
}

func main() {
	if len(os.Args) > 1 {
		if run, known := parts[os.Args[1]]; known {
			// Every part reads its own name and arguments from here.
			os.Args = os.Args[1:]
			os.Exit(run())
		}
	}
	names := make([]string, 0, len(parts))
	for name := range parts {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Fprintf(os.Stderr, "usage: control-plane %s [flags]\n", strings.Join(names, "|"))
	os.Exit(wrongUsage)
}

func outcome(part string, err error) int {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", part, err)
		return 1
	}
	return 0
}

// runStore ends the process itself when etcd fails.
func runStore() int {
	etcdmain.Main(os.Args)
	return 0
}

func runKwok(ctx context.Context) error {
	// Kubernetes has put a --version of its own among the global flags, which is no boolean; kwok
	// wants one that is.
	pflag.CommandLine = pflag.NewFlagSet("kwok", pflag.ExitOnError)
	// Log level and configuration are needed before the command exists whose flags they set.
	early := pflag.NewFlagSet("early", pflag.ContinueOnError)
	early.ParseErrorsAllowlist.UnknownFlags = true
	early.Usage = func() {}
	ctx, _ = kwoklog.InitFlags(ctx, early)
	ctx, err := kwokconfig.InitFlags(ctx, early)
	if err != nil {
		return err
	}
	command := kwok.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(early)
	return command.ExecuteContext(ctx)
}

// writeSigningKey writes a new private key, with which the API server signs service account tokens:
// so nothing but this program is needed to start one.
func writeSigningKey(to *os.File) error {
	key, err := rsa.GenerateKey(rand.Reader, signingKeyBits)
	if err != nil {
		return err
	}
	return pem.Encode(to, &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}
