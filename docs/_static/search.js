// A message of Triton's has names and sizes of its reader's, which no page has. So pages that have most words of a search
// are found, too, behind those that have all. The page on messages may lack one word more than the others.
const MESSAGES = "docs/troubleshooting";

document.addEventListener("DOMContentLoaded", () => {
  if (typeof Search === "undefined") return; // this page is not that of the search
  const withAll = Search.performTermsSearch;
  Search.performTermsSearch = (wanted, excluded) => {
    if (wanted.size < 4) return withAll(wanted, excluded);
    const pages = new Map();
    for (const word of wanted) {
      for (const result of withAll(new Set([word]), excluded)) {
        const { words, score } = pages.get(result[0]) ?? { words: 0, score: 0 };
        pages.set(result[0], { result, words: words + 1, score: score + result[4] });
      }
    }
    const most = Math.max(...[...pages.values()].map((page) => page.words));
    return [...pages.values()]
      .filter(({ words }) => words > wanted.size / 2 && words > most - 3)
      .map(({ result, words, score }) =>
        result.with(4, 100 * words + score + (result[0] === MESSAGES ? 100 : 0)),
      );
  };
});
