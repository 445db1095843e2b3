import java.io.File;
import java.nio.file.Files;
import java.util.Collection;
import org.eclipse.jgit.api.Git;
import org.eclipse.jgit.lib.PersonIdent;
import org.eclipse.jgit.lib.Ref;
import org.eclipse.jgit.transport.PushResult;
import org.eclipse.jgit.transport.RefSpec;
import org.eclipse.jgit.transport.RemoteRefUpdate;

/**
 * talon git serve --push as JGit sees it. The environment variable TALON_GIT_URL says where it is
 * and TALON_GIT_DIR which folder it serves.
 */
public class Client {
    public static void main(String[] args) throws Exception {
        String url = System.getenv("TALON_GIT_URL") + "jgit.git";
        File bare = new File(System.getenv("TALON_GIT_DIR"), "jgit.git");
        Git.init().setBare(true).setInitialBranch("master").setDirectory(bare).call().close();
        File folder = Files.createTempDirectory(bare.getParentFile().getParentFile().toPath(), "jgit").toFile();
        Git.cloneRepository().setURI(url).setDirectory(new File(folder, "empty")).call().close();

        Git git = Git.init().setInitialBranch("master").setDirectory(new File(folder, "work")).call();
        PersonIdent me = new PersonIdent("a", "a@example.com");
        git.commit().setAuthor(me).setCommitter(me).setMessage("change").call();
        want(push(git, url, "refs/heads/master:refs/heads/master"), RemoteRefUpdate.Status.OK, null);
        want(push(git, url, "refs/heads/master:refs/heads/dev"), RemoteRefUpdate.Status.OK, null);
        want(push(git, url, ":refs/heads/dev"), RemoteRefUpdate.Status.OK, null);
        want(push(git, url, ":refs/heads/dev"), RemoteRefUpdate.Status.NON_EXISTING, null);
        want(push(git, url, "refs/heads/master:refs/pull/1/head"), RemoteRefUpdate.Status.REJECTED_OTHER_REASON, "only branches, tags");
        Collection<Ref> refs = Git.lsRemoteRepository().setRemote(url).setHeads(true).setTags(true).call();
        check(refs.size() == 1, "the refs are " + refs);
        Git clone = Git.cloneRepository().setURI(url).setDirectory(new File(folder, "clone")).call();
        check(clone.getRepository().resolve("HEAD").equals(git.getRepository().resolve("HEAD")), "the clone is at " + clone.getRepository().resolve("HEAD"));
        System.out.println("JGit: ok");
    }

    static RemoteRefUpdate push(Git git, String url, String spec) throws Exception {
        for (PushResult result : git.push().setRemote(url).setRefSpecs(new RefSpec(spec)).call()) {
            for (RemoteRefUpdate update : result.getRemoteUpdates()) {
                return update;
            }
        }
        throw new AssertionError(spec + " has no result");
    }

    static void want(RemoteRefUpdate update, RemoteRefUpdate.Status status, String message) {
        check(update.getStatus() == status && (message == null || String.valueOf(update.getMessage()).contains(message)), "the result is " + update);
    }

    static void check(boolean ok, String what) {
        if (!ok) {
            throw new AssertionError(what);
        }
    }
}
