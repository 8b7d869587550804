import { searchTerms } from './search-tokens.js';

/** Words that people and tool authors use for the same thing, one group a line. */
const GROUPS = `
create make add new open
delete remove drop erase
find search lookup locate
get fetch read show view retrieve
edit update modify change
send post deliver
run execute launch
start begin launch
stop end kill terminate
move rename
reply answer respond
mute silence
image picture photo screenshot
mail email
message text sms
meeting event appointment
file document
folder directory
website page site
error exception failure
bug issue defect
ticket issue
customer client
employee staff
money balance funds cash
vacation leave
pod container
regex regexp regular expression
deploy deployment rollout release
schedule plan
size large big
repo repository
db database
docs document
dir directory
cmd command
pr pull request
k8s kubernetes
`;

const synonyms = new Map<string, Set<string>>();
for (const line of GROUPS.trim().split('\n')) {
  const terms = searchTerms(line);
  for (const term of terms) {
    const known = synonyms.get(term) ?? new Set();
    for (const other of terms) if (other !== term) known.add(other);
    synonyms.set(term, known);
  }
}

/** Terms that may stand for a term of a query, without itself. */
export function synonymsOf(term: string): Iterable<string> {
  return synonyms.get(term) ?? [];
}
